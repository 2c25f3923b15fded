"""No command of ours lets git run what a checkout names, and git runs only what the tables list.

Every command that touches a user's repository works in checkouts that are armed in each way there
is (`armed_checkouts`), as the user of the suite, as an ordinary user and as root over a checkout
of another user's. What git ran is compared with the tables of `clients.foreign_git`.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import armed_program
from armed_checkouts import SHAPES, Armed, arm
from armed_commands import CHAPTERS, LOSING, UNTOUCHING, commands, named, steps
from armed_controls import expected, fired
from git_traces import Ran, traced, what_ran
from hostile_mcp import PROGRAM as SERVER
from mainjob.driver import LONGEST_S, Desk, finish, write
from patchyard.clients.foreign_git import ITS_OWN, OURS, SERVED, VIEWED
from services import need, ordinary_python
from timing import IS_SOAK

pytestmark = [pytest.mark.timeout(900), pytest.mark.service("bubblewrap")]

NOBODY = 65534
OURSELVES, ORDINARY, FOREIGN = "ourselves", "an ordinary user", "root over a user's checkout"
USERS = (OURSELVES, ORDINARY, FOREIGN)
PARTIAL = "partial"
QUICK: Mapping[tuple[str, str], Collection[str]] = {  # of the product, outside of a soak
    ("at home", OURSELVES): ("handing over", "naming", "serving"),
    ("included", ORDINARY): ("handing over", "looking", "naming", "steering"),
    (PARTIAL, OURSELVES): ("handing over", "looking"),
    ("per work tree", FOREIGN): ("handing over", "following", "beginning anew", "steering"),
    ("plain", OURSELVES): ("handing over", "looking", "following", "beginning anew", "asking"),
}
PAIRS: Mapping[tuple[str, str], Collection[str]] = (
    dict.fromkeys(((shape, user) for shape in SHAPES for user in USERS), tuple(CHAPTERS))
    if IS_SOAK
    else QUICK
)
WHOLE = ("plain", OURSELVES)  # the pair in which everything runs that the tables list
TABLES: Mapping[str, Mapping[str, str]] = {
    "ITS_OWN": ITS_OWN, "OURS": OURS, "SERVED": SERVED, "VIEWED": VIEWED
}  # fmt: skip
STARTED = {  # by git itself
    *("git for-each-ref", "git index-pack", "git pack-objects", "git rev-list"),
    *("git upload-pack", "git-upload-pack"),
}
ACTION = "name: trial\ngoal: make it\nvalidate: ['test -e made']\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="patchyard-desk-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def carried_out(armed: Armed, user: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Carry out the commands of texts as that user; return those that failed and why."""
    desk = Desk(folder=armed.folder, repo=armed.repo)
    values = _furnished(armed)
    path = traced(armed.folder)
    taken = [step for text in texts for step in steps(text, values)]
    is_switched = user == ORDINARY and os.geteuid() == 0
    if is_switched:
        _give(armed.folder)
    elif user == FOREIGN:
        _give(armed.repo)
    python = ordinary_python() if is_switched else (sys.executable,)
    done = subprocess.run(
        [*python, "-c", Path(armed_program.__file__).read_text()],
        cwd=armed.repo,
        env={**desk.environ, "PATH": path},
        input=json.dumps(
            {
                "steps": [step.known for step in taken],
                "repo": str(armed.repo),
                "place": str(armed.folder / "cloned"),
            }
        ).encode(),
        capture_output=True,
        check=False,
        timeout=6 * LONGEST_S,
        user=NOBODY if is_switched else None,
        group=NOBODY if is_switched else None,
        extra_groups=[] if is_switched else None,
    )
    desk.clear()
    assert done.returncode == 0, done.stderr.decode()
    ended = zip(taken, json.loads(done.stdout), strict=True)
    return [(" ".join(words), said) for step, (words, code, said) in ended if code != step.code]


def _furnished(armed: Armed) -> Mapping[str, str]:
    """Write what the commands take beside the repository; return the values of their words."""
    folder, desk = armed.folder, Desk(folder=armed.folder, repo=armed.repo)
    action, settings = folder / "action.yaml", folder / "settings" / "patchyard" / "config.yaml"
    action.write_text(ACTION)
    server = shutil.copy(SERVER, folder / "server.py")
    settings.parent.mkdir(parents=True)
    settings.write_text(f"mcp_servers: {{h: {{command: python3, args: [{server}]}}}}\n")
    values = {"action": action, "folder": folder, "repo": desk.repo}
    values |= {"kept": armed.kept, "object": armed.object}
    made = write("made", "made\n")
    values["script"] = desk.script(made)
    values["longer"] = desk.script(made, *[finish()] * 4, name="longer")
    return {name: str(place) for name, place in values.items()}


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


def checked(folder: Path, shape: str, user: str, chapters: Collection[str]) -> Armed:
    """Carry the commands out in an armed checkout and see that nothing of it ran."""
    if user == FOREIGN:
        need("root")
    if user == ORDINARY:
        need("ordinary-user")
    armed = arm(folder, shape)

    texts = [LOSING] if shape == PARTIAL else []
    failed = carried_out(armed, user, [*texts, *(CHAPTERS[chapter] for chapter in chapters)])

    assert armed.ran == set()
    assert {name for ran in what_ran(folder) for name in ran.started} <= STARTED
    if shape == PARTIAL:
        (_, said), *failed = failed
        assert "the history of" in said
    assert failed == []
    new, _ = unlisted(armed)
    assert not any(new.values()), f"say in clients.foreign_git why these are safe: {new}"
    return armed


@pytest.mark.parametrize(("shape", "user"), PAIRS)
def test_no_command_runs_what_an_armed_checkout_names(folder: Path, shape: str, user: str) -> None:
    armed = checked(folder, shape, user, PAIRS[shape, user])

    if (shape, user) == WHOLE:
        _, old = unlisted(armed)
        assert not any(old.values()), f"the tables list what does not run any more: {old}"


@pytest.mark.parametrize("pairs", [QUICK, PAIRS], ids=["quick", "this run"])
def test_every_shape_user_and_command_comes(
    folder: Path, pairs: Mapping[tuple[str, str], Collection[str]]
) -> None:
    values = _furnished(Armed(folder=folder, shape=PARTIAL))
    taken = {chapter for chapters in pairs.values() for chapter in chapters}
    words = [step.words for chapter in taken for step in steps(CHAPTERS[chapter], values)]
    carried = {named(each) for each in words if each != ("end",)}

    assert {shape for shape, _ in pairs} == {*SHAPES}
    assert {user for _, user in pairs} == {*USERS}
    assert carried <= commands() - {*UNTOUCHING}
    assert commands() - carried == {*UNTOUCHING}, "carry it out, or say why it touches nothing"


@pytest.mark.parametrize("shape", SHAPES)
def test_plain_git_runs_all_that_an_armed_checkout_names(folder: Path, shape: str) -> None:
    thoroughly = IS_SOAK or shape == "plain"

    ran = fired(arm(folder, shape), thoroughly=thoroughly)

    assert expected(shape, thoroughly=thoroughly) - ran == set()
