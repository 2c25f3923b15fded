"""No command of ours lets git run what a checkout names, and git runs only what the tables list.

Every command that touches a user's repository works in checkouts that are armed in each way there
is (`armed_checkouts`), as the user of the suite, as an ordinary user and as root over a checkout
of another user's. What git ran is compared with the tables of `clients.foreign_git`.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from armed_checkouts import SHAPES, Armed, arm
from armed_controls import expected, fired
from git_traces import Ran, traced, what_ran
from mainjob.driver import LONGEST_S, Desk, write
from patchyard.clients.foreign_git import ITS_OWN, OURS, SERVED, VIEWED
from services import need, ordinary_python
from timing import IS_SOAK

pytestmark = pytest.mark.timeout(900)

NOBODY = 65534
OURSELVES, ORDINARY, FOREIGN = "ourselves", "an ordinary user", "root over a user's checkout"
USERS = (OURSELVES, ORDINARY, FOREIGN)
QUICK = {  # of the product, outside of a soak
    "at home": OURSELVES,
    "included": ORDINARY,
    "partial": OURSELVES,
    "per work tree": FOREIGN,
    "plain": OURSELVES,
}
TABLES: Mapping[str, Mapping[str, str]] = {
    "ITS_OWN": ITS_OWN, "OURS": OURS, "SERVED": SERVED, "VIEWED": VIEWED
}  # fmt: skip
STARTED = {  # by git itself
    *("git for-each-ref", "git index-pack", "git pack-objects", "git rev-list", "git-upload-pack"),
}
RUN = "run task --model scripted:{script} --validate 'test -e made'"
MERGED = """
plan apply --to merge
plan unapply
"""
SHORT = f"""
{RUN} --in host
plan diff
plan apply
plan unapply
{MERGED}
"""
LONG = f"""
doctor
init --force
trust
config show
resource add git-checkout shop --path {{repo}}
resource show shop
project list
role list
mcp list
{SHORT}
plan apply --to branch --name side
plan unapply
plan apply --to patch --name {{folder}}/patch
plan unapply
plan apply --to merge
plan status
plan list
plan verify
plan route
plan export --to {{folder}}/plan.json
plan resume
{RUN} --in host --ref HEAD
{RUN} --in process --allow-host git --detach
gc
disk
trust --revoke
"""
LONGEST = f"""
{LONG}
{RUN} --in host --role developer
plan replay --yes
plan fork
{RUN} --in host --base head
"""
PROGRAM = """
import contextlib, io, json, os, sys
from pathlib import Path
import click
from patchyard.cli.main import agents
from patchyard.execution.cloning import TaskConfig, clone
given, said = json.load(sys.stdin), []
for words in given["commands"]:
    out, code = io.TextIOWrapper(io.BytesIO()), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = agents.main(args=words, prog_name="agents", standalone_mode=False)
        except click.ClickException as error:
            error.show(out)
            code = 2
    out.seek(0)
    said.append([words, code or 0, out.read()[-500:] if code else ""])
task = TaskConfig(id="t", repo_url=given["repo"])
with contextlib.suppress(Exception):  # a partial clone cannot be cloned
    clone(task, Path(given["place"]), home=Path(os.environ["PATCHYARD_HOME"]), environ=os.environ)
print(json.dumps(said))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="patchyard-desk-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def carried_out(armed: Armed, user: str, commands: str) -> list[tuple[str, str]]:
    """Carry out the commands in a process of that user; return those that failed and why."""
    desk = Desk(folder=armed.folder, repo=armed.repo)
    script = desk.script(write("made", "made\n"))
    path = traced(armed.folder)
    known = {"folder": str(armed.folder), "repo": str(armed.repo), "script": str(script)}
    words = [shlex.split(line) for line in commands.format(**known).splitlines() if line]
    is_switched = user == ORDINARY and os.geteuid() == 0
    if is_switched:
        _give(armed.folder)
    elif user == FOREIGN:
        _give(armed.repo)
    python = ordinary_python() if is_switched else (sys.executable,)
    done = subprocess.run(
        [*python, "-c", PROGRAM],
        cwd=armed.repo,
        env={**desk.environ, "PATH": path},
        input=json.dumps(
            {"commands": words, "repo": str(armed.repo), "place": str(armed.folder / "cloned")}
        ).encode(),
        capture_output=True,
        check=False,
        timeout=4 * LONGEST_S,
        user=NOBODY if is_switched else None,
        group=NOBODY if is_switched else None,
        extra_groups=[] if is_switched else None,
    )
    desk.clear()
    assert done.returncode == 0, done.stderr.decode()
    return [(" ".join(each), said) for each, code, said in json.loads(done.stdout) if code]


def _give(folder: Path) -> None:
    for place in (folder, *folder.rglob("*")):
        os.lchown(place, NOBODY, NOBODY)


def table_of(ran: Ran, armed: Armed) -> str:
    """Return the table that a process belongs to; empty where it works on a repository of ours."""
    git_dir = ran.places.get("GIT_DIR", "")
    if "GIT_COMMON_DIR" in ran.places:
        return "OURS"
    if ran.above == "upload-pack" or ran.command in {"clone", "fetch", "upload-pack"}:
        return "SERVED"
    if git_dir and not Path(git_dir).is_relative_to(armed.repo):
        return "VIEWED" if Path(ran.work_tree).is_relative_to(armed.repo) else ""
    if not ran.places:  # a reader of blobs that was ended before it said where it was
        assert (ran.command, ran.above) == ("cat-file", "")
        return ""
    is_inside = Path(ran.places["PWD"]).is_relative_to(armed.repo)
    is_named = any(str(armed.repo) in word for word in (git_dir, *ran.words))
    return "ITS_OWN" if is_inside or is_named else ""


def unlisted(armed: Armed) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return by table what git ran that it does not list, and what it lists that did not run."""
    used: dict[str, set[str]] = {name: set() for name in ("", *TABLES)}
    for ran in what_ran(armed.folder):
        used[table_of(ran, armed)].add(ran.command)
    new = {name: used[name] - set(table) for name, table in TABLES.items()}
    old = {name: set(table) - used[name] for name, table in TABLES.items()}
    return new, old


def checked(folder: Path, shape: str, user: str, commands: str) -> Armed:
    """Carry the commands out in an armed checkout and see that nothing of it ran."""
    if user == FOREIGN:
        need("root")
    if user == ORDINARY:
        need("ordinary-user")
    armed = arm(folder, shape)

    failed = carried_out(armed, user, commands)

    assert armed.ran == set()
    assert {name for ran in what_ran(folder) for name in ran.started} <= STARTED
    if shape == "partial":
        assert "the history of" in failed[0][1]
    else:
        assert failed == []
    new, _ = unlisted(armed)
    assert not any(new.values()), f"say in clients.foreign_git why these are safe: {new}"
    return armed


@pytest.mark.parametrize(
    ("shape", "user"), [(s, u) for s in SHAPES for u in USERS if IS_SOAK or QUICK[s] == u]
)
def test_no_command_runs_what_an_armed_checkout_names(folder: Path, shape: str, user: str) -> None:
    commands = LONGEST if IS_SOAK else LONG if shape == "plain" else SHORT

    armed = checked(folder, shape, user, commands)

    if shape == "plain":
        _, old = unlisted(armed)
        assert not any(old.values()), f"the tables list what does not run any more: {old}"


@pytest.mark.parametrize("shape", SHAPES)
def test_plain_git_runs_all_that_an_armed_checkout_names(folder: Path, shape: str) -> None:
    thoroughly = IS_SOAK or shape == "plain"

    ran = fired(arm(folder, shape), thoroughly=thoroughly)

    assert expected(shape, thoroughly=thoroughly) - ran == set()
