"""`agents demo`: the main job on a bundled task, with a scripted model."""

import importlib.resources
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import click

from patchyard.cli.outcome import JSON, Outcome, carry_out, format_option
from patchyard.clients.git import no_git
from patchyard.clients.room import require_writable
from patchyard.config import places

TASK = "The tests of inventory.stock fail: pages() loses the last page. Mend it."
VALIDATE = "python3 -m unittest -q"


@click.command(epilog="Example: agents demo")
@click.option("--in", "kind", default=None, help="host or process; default as for `run`.")
@format_option
def demo(output_format: str, kind: str | None) -> None:
    """Run the main job on a bundled task, without key or network.

    The model is scripted by hand: this shows the engine, not a model's wits.
    """
    is_json = output_format == JSON
    carry_out("demo", output_format, lambda: _demo(kind=kind, is_json=is_json))


async def _demo(*, kind: str | None, is_json: bool) -> Outcome:
    from patchyard.cli.working import run_plan  # noqa: PLC0415 - heavy, and only now needed
    from patchyard.clients.temporaries import MARK  # noqa: PLC0415 - likewise
    from patchyard.intake import Asked  # noqa: PLC0415 - likewise

    require_writable(places(os.environ).home)
    bundled = importlib.resources.files("patchyard.demo")
    with importlib.resources.as_file(bundled) as folder:
        repository = _prepared(folder / "project")
        (repository.parent / MARK).write_bytes(os.fsencode(places(os.environ).home.absolute()))
        asked = Asked(
            task=TASK,
            repository=str(repository),
            model=f"scripted:{folder / 'script.yaml'}",
            validate=(VALIDATE,),
            kind=kind,
        )
        outcome = await run_plan(asked, dict(os.environ), is_json=is_json, stream=False)
    if is_json or outcome.error:
        return outcome
    diff = await _diff(outcome.data["plan_id"])
    return Outcome(data=outcome.data, text=f"{outcome.text}\n\n{diff}{_farewell(repository)}")


async def _diff(plan_id: str) -> str:
    from patchyard.assembly import open_equipment  # noqa: PLC0415 - heavy, and only now needed
    from patchyard.cli.screen import patch_shown  # noqa: PLC0415 - likewise
    from patchyard.contracts.trees import whole  # noqa: PLC0415 - likewise
    from patchyard.engine.handing import Handing  # noqa: PLC0415 - likewise
    from patchyard.engine.ledger import Ledger  # noqa: PLC0415 - likewise

    async with open_equipment(os.environ) as equipment:
        ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
        base, changeset = await Handing(equipment, ledger).changeset()
        patch = await whole(equipment.trees.diff(base, changeset))
    return textwrap.indent(patch_shown(patch), "  ")


def _prepared(project: Path) -> Path:
    """Copy the project into a folder of its own and commit it, as a user would have."""
    repository = Path(tempfile.mkdtemp(prefix="patchyard-demo-")) / "inventory"
    shutil.copytree(project, repository, ignore=shutil.ignore_patterns("__pycache__"))
    identity = ["-c", "user.name=Demo", "-c", "user.email=demo@localhost"]
    for arguments in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        [*identity, "-c", "commit.gpgsign=false", "commit", "-q", "-m", "feat: count the stock"],
    ):
        try:
            subprocess.run(["git", *arguments], cwd=repository, check=True)
        except FileNotFoundError as error:
            raise no_git() from error
    return repository


def _farewell(repository: Path) -> str:
    agents = "agents" if shutil.which("agents") else str(Path(sys.argv[0]).absolute())
    return (
        "\nThe model was scripted by hand; sandbox, proof and hand-over are real.\n"
        f"Go on in the demo's repository:  cd {repository}\n"
        f"  {agents} plan diff      # what changed, as a patch\n"
        f"  {agents} plan apply     # put it into the working tree\n"
        f"  {agents} plan unapply   # and take it back"
    )


__all__ = ["TASK", "VALIDATE", "demo"]
