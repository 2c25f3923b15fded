import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handovers import order
from laboratory import Lab, bytes_below, git, started
from patchyard.contracts.trees import whole
from patchyard.domain.changeset import ChangeStatus
from patchyard.domain.errors import Conflict
from patchyard.workspaces.handover import GitHandOver

pytestmark = pytest.mark.anyio


PATHS = st.sampled_from(["a.txt", "d/b.txt", "d", "d/c.txt", "e/f", "e/f/g.txt", "n/m/o", "n", "z"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "delete", "link", "move", "mode", "folder"]),
        PATHS,
        PATHS,
        st.binary(max_size=20),
    ),
    max_size=12,
)


def clear(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    elif os.path.lexists(place):
        place.unlink()


def make_way(root: Path, path: str) -> None:
    """Take away what stands where folders above `path` are needed."""
    for above in list(Path(path).parents)[::-1][1:]:
        place = root / above
        if place.is_symlink() or (os.path.lexists(place) and not place.is_dir()):
            place.unlink()


def step(root: Path, what: str, first: str, second: str, content: bytes) -> None:
    make_way(root, first)
    place, other = root / first, root / second
    is_file = place.is_file() and not place.is_symlink()
    if what == "mode" and is_file:
        place.chmod(0o755)
    if what == "move" and is_file and not os.path.lexists(other) and other.parent.is_dir():
        place.rename(other)
    if what in {"mode", "move"}:
        return
    clear(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[], object]] = {
        "link": lambda: place.symlink_to(second),
        "folder": place.mkdir,
        "write": lambda: place.write_bytes(content),
    }
    if what in makers:
        makers[what]()


@settings(
    max_examples=12,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
async def test_any_sequence_of_edits_is_captured_whole(
    lab: Lab, tmp_path: Path, steps: list[tuple[str, str, str, bytes]]
) -> None:
    if not (lab.repo / "a.txt").exists():
        await started(lab)
    base = await lab.base()
    name = os.urandom(4).hex()
    ref, root = await lab.workspace(base, name)
    for each in steps:
        step(root, *each)
    changeset = await lab.workspaces.capture(base, ref)
    patch = await whole(lab.trees.diff(base, changeset))
    fresh = lab.fresh(base, tmp_path / name)
    git(fresh, "init", "-q")
    if patch:
        git(fresh, "apply", "--binary", "-", stdin=patch)

    assert bytes_below(fresh) == bytes_below(root)
    for change in changeset.changes:
        assert change.status in ChangeStatus
    shutil.rmtree(fresh)
    before = bytes_below(lab.repo)
    receipt = await lab.apply(base, changeset, order("worktree", allow=["*"]))
    assert bytes_below(lab.repo) == bytes_below(root)
    await GitHandOver(lab.trees).take_back(base, changeset, receipt)
    assert bytes_below(lab.repo) == before
    await lab.workspaces.remove(ref)


def seen(repo: Path) -> tuple[object, ...]:
    """What a user sees of a checkout: contents, the index against both sides, the branch."""
    return bytes_below(repo), git(repo, "status", "--porcelain"), git(repo, "rev-parse", "HEAD")


@pytest.mark.parametrize("to", ["worktree", "merge"])
@settings(
    max_examples=8,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(theirs=STEPS, committed=STEPS, mine=STEPS)
async def test_over_any_newer_work_an_apply_can_be_undone_or_does_nothing(
    copying: Lab,
    to: str,
    theirs: list[tuple[str, str, str, bytes]],
    committed: list[tuple[str, str, str, bytes]],
    mine: list[tuple[str, str, str, bytes]],
) -> None:
    if not (copying.repo / ".git/index").exists():
        await started(copying)
        git(copying.repo, "tag", "start")
    git(copying.repo, "reset", "-q", "--hard", "start")
    git(copying.repo, "clean", "-qfdx")
    base = await copying.base()
    ref, root = await copying.workspace(base, os.urandom(4).hex())
    for each in theirs:
        step(root, *each)
    changeset = await copying.workspaces.capture(base, ref)
    await copying.workspaces.remove(ref)
    for each in committed:
        step(copying.repo, *each)
    git(copying.repo, "add", "-A")
    git(copying.repo, "commit", "-q", "--allow-empty", "-m", "newer")
    for each in mine:
        step(copying.repo, *each)
    before = seen(copying.repo)

    try:
        receipt = await copying.apply(base, changeset, order(to, allow=["*"]))
    except Conflict:
        assert seen(copying.repo) == before
        return

    await GitHandOver(copying.trees).take_back(base, changeset, receipt)
    assert seen(copying.repo) == before
