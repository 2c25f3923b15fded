"""`agents init`: settings for this repository, found from its own files."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from patchyard.assembly import open_equipment
from patchyard.cli.cataloguing import checkout_of
from patchyard.cli.outcome import Outcome, carry_out, format_option
from patchyard.clients.glimpse import CheckoutGlimpse
from patchyard.clients.placer import Placer
from patchyard.clients.room import require_writable
from patchyard.config import places
from patchyard.configuration import REPOSITORY_FILE, repository_files
from patchyard.domain.detection import Detected, detect
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import Conflict, StateRefusal
from patchyard.domain.gate_detection import ALWAYS, gates_for
from patchyard.domain.gates import Reads
from patchyard.domain.shipped_gates import SHIPPED
from patchyard.engine.catalogue import Catalogue


@click.command(epilog="Example: agents init --force")
@click.option("--force", is_flag=True, help="Overwrite the file that is there.")
@format_option
def init(output_format: str, *, force: bool) -> None:
    """Write .patchyard/config.yaml for this repository: language, setup, tests, environment.

    What it wrote is trusted at once, unless the folder held other files already.
    """
    carry_out("init", output_format, lambda: _init(force=force))


async def _init(*, force: bool) -> Outcome:
    top = Path(checkout_of("."))
    sight = CheckoutGlimpse(top=top)
    there = repository_files(sight)
    if there.obstacle:
        raise Conflict(f"{top}: {there.obstacle}", hint="take it away")

    def text(name: str) -> str | None:
        data = sight.read(name)
        return None if data is None else data.decode("utf-8", "replace")

    found = detect(text, sight.names(), sight.names)
    gates = gates_for(text, sight.names())
    require_writable(places(os.environ).home)
    async with open_equipment(os.environ) as equipment:
        adapter = equipment.environments.get(ExecutionEnvironment.PROCESS)
        works = adapter is not None and (await adapter.check()).is_ready
        _write(top, settings_text(found, gates, has_process=works), force=force)
        written = repository_files(CheckoutGlimpse(top=top))
        is_trusted = written.paths == {REPOSITORY_FILE} and not written.unhashed
        if is_trusted:
            catalogue = Catalogue(equipment.store.journal, equipment.clock)
            await catalogue.trust(str(top), written.digest, written.marks)
    data = {
        "path": str(top / REPOSITORY_FILE),
        "language": found.language,
        "setup": list(found.setup),
        "validate": list(found.validate),
        "lint": list(found.lint),
        "gates": dict(gates),
        "execution_environment": "process" if works else None,
        "trusted": is_trusted,
    }
    said = f"wrote {REPOSITORY_FILE}; look it over, then: agents run 'what is to be done'"
    if not is_trusted:
        said += "\n.patchyard/ held other files; `agents trust` lets them decide"
    return Outcome(data=data, text=said)


def settings_text(found: Detected, gates: Mapping[str, str], *, has_process: bool) -> str:
    """Return the file for what was found."""
    lines = ["# Settings of this repository for Patchyard; `agents config check` checks them."]
    if found.because:
        lines.append(
            f"# Found by {found.because}{f' ({found.language})' if found.language else ''}."
        )
    if has_process:
        lines.append("execution_environment: process")
    lines += _listed("setup", found.setup)
    lines += _listed("validate", found.validate)
    lines += [
        f"#  - {json.dumps(command)}  # lint, where it is installed" for command in found.lint
    ]
    lines += _proposed(gates)
    lines.append("# invariants: [{text: the public API stays, check: python tools/api.py}]")
    lines.append("# limits: {budget_usd: 5, max_steps: 200, timeout: 1h}")
    lines.append("# protected_paths: [migrations/*]")
    lines.append("# role: developer")
    return "\n".join(lines) + "\n"


def _proposed(gates: Mapping[str, str]) -> list[str]:
    """Return the gates that fit; those that need a tool are left for you to switch on."""
    lines = ["gates:"]
    for purpose, gate in gates.items():
        if purpose in ALWAYS:
            lines.append(f"  {purpose}: {gate}")
            continue
        why = "instead of `validate`" if purpose == "tests" else ""
        if why and SHIPPED[gate].reads != Reads.EXIT:
            why = f"old failures do not count; {why}"
        lines.append(f"#  {purpose}: {gate}  # {why or 'where it is installed'}")
    return lines


def _listed(key: str, commands: Sequence[str]) -> list[str]:
    if not commands:
        return [f"# {key}: []"]
    return [f"{key}:", *(f"  - {json.dumps(command)}" for command in commands)]


def _write(top: Path, text: str, *, force: bool) -> None:
    file = top / REPOSITORY_FILE
    if os.path.lexists(file) and not force:
        raise Conflict(f"{file} is there already", hint="--force overwrites it")
    try:
        Placer(top, inherits=os.geteuid() == 0).put(REPOSITORY_FILE, "100644", [text.encode()])
    except OSError as error:
        raise StateRefusal(
            f"{file} cannot be written: {error.strerror}", hint="make the checkout writable"
        ) from error


__all__ = ["init", "settings_text"]
