"""The user's index may name files that git must read again before it writes: no filter runs."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from handovers import begun, order
from laboratory import Lab, git, lab_at
from patchyard.contracts.handover import Order
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import Conflict
from patchyard.workspaces.handover import GitHandOver

pytestmark = pytest.mark.anyio

FUTURE = 2**31 - 1000  # seconds; such an entry is newer than each index that names it
UNTOUCHED = "b/c.txt"


def armed(lab: Lab) -> Path:
    """Set up a filter for every file and return what it leaves when it runs."""
    trace = lab.repo.parent / "ran"
    for part in ("clean", "smudge"):
        git(lab.repo, "config", f"filter.trap.{part}", f"touch {trace}; cat")
    git(lab.repo, "config", "core.checkStat", "minimal")  # as of a copy out of an archive
    git(lab.repo, "config", "core.trustctime", "false")
    (lab.repo / ".git/info").mkdir(exist_ok=True)
    (lab.repo / ".git/info/attributes").write_text("* filter=trap\n")
    return trace


def dated(lab: Lab) -> None:
    """Date an untouched file later than the index will be, and enter it so."""
    os.utime(lab.repo / UNTOUCHED, (FUTURE, FUTURE))
    git(lab.repo, "update-index", "--refresh")


def entered_outside(lab: Lab, place: Path) -> None:
    """Let an entry of the index name a file outside of the work tree, as no git would."""
    plain = os.fsencode(place).replace(b"/", b"_")
    named = lab.repo / os.fsdecode(plain)
    named.write_text("outside\n")
    os.utime(named, (FUTURE, FUTURE))
    git(lab.repo, "add", named.name)
    index = lab.repo / ".git/index"
    body = index.read_bytes()[:-20].replace(plain, os.fsencode(place))
    index.write_bytes(body + hashlib.sha1(body, usedforsecurity=False).digest())
    named.rename(place)


async def merged(lab: Lab, base: Base, changeset: ChangeSet, merge: Order) -> None:
    """Apply it and take it back, and apply it again: the index is written three times."""
    receipt = await lab.apply(base, changeset, merge)
    await GitHandOver(lab.trees).take_back(base, changeset, receipt)
    await lab.apply(base, changeset, merge)


async def test_a_merge_runs_no_filter_over_an_untouched_file_of_the_future(copying: Lab) -> None:
    base, changeset = await begun(copying)
    dated(copying)
    trace = armed(copying)

    await merged(copying, base, changeset, order("merge"))

    assert not trace.exists()
    git(copying.repo, "update-index", "--add", "--cacheinfo", f"100644,{base.tree},other")
    assert trace.exists(), "the filter does not even run where git is called bare"


async def test_nor_where_the_filter_was_set_up_after_the_plan_ran(copying: Lab) -> None:
    base, changeset = await begun(copying)
    dated(copying)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("merge"))
    trace = armed(copying)

    receipt = await handing.carry_out(base, changeset, order("merge"), intent)
    await handing.take_back(base, changeset, receipt)

    assert not trace.exists()


async def test_nor_where_the_index_names_a_file_outside_of_the_work_tree(copying: Lab) -> None:
    base, changeset = await begun(copying)
    entered_outside(copying, copying.repo.parent / "elsewhere")
    trace = armed(copying)

    await merged(copying, base, changeset, order("merge"))

    assert not trace.exists()
    git(copying.repo, "update-index", "--add", "--cacheinfo", f"100644,{base.tree},other")
    assert trace.exists(), "the filter does not even run where git is called bare"


async def test_work_that_only_its_content_shows_is_still_seen_after_a_merge(copying: Lab) -> None:
    base, changeset = await begun(copying)
    git(copying.repo, "update-index", "--refresh")
    stamp = (copying.repo / ".git/index").stat()
    entered = (copying.repo / UNTOUCHED).stat()
    (copying.repo / UNTOUCHED).write_text("d\n")
    os.utime(copying.repo / UNTOUCHED, ns=(entered.st_atime_ns, entered.st_mtime_ns))
    os.utime(copying.repo / ".git/index", ns=(stamp.st_atime_ns, entered.st_mtime_ns))
    assert (
        git(copying.repo, "-c", "core.trustctime=false", "diff", "--name-only") == UNTOUCHED + "\n"
    )

    await copying.apply(base, changeset, order("merge"))

    assert (
        git(copying.repo, "-c", "core.trustctime=false", "diff", "--name-only") == UNTOUCHED + "\n"
    )


@pytest.mark.parametrize("kind", ["split", "sparse", "shared"])
async def test_an_index_of_another_kind_is_written_as_git_would(copying: Lab, kind: str) -> None:
    copying.write({"far/f": "f\n", "far/g": "g\n"})
    base, changeset = await begun(copying)
    {
        "split": lambda: git(copying.repo, "update-index", "--split-index"),
        "sparse": lambda: git(copying.repo, "sparse-checkout", "set", "--sparse-index", "b"),
        "shared": lambda: git(copying.repo, "config", "core.sharedRepository", "group"),
    }[kind]()

    await merged(copying, base, changeset, order("merge"))

    assert git(copying.repo, "status", "--porcelain") == ""
    assert git(copying.repo, "ls-files") == "a.txt\nb/c.txt\nfar/f\nfar/g\nnew/deep.txt\n"
    assert (copying.repo / "far").exists() is (kind != "sparse")
    mode = (copying.repo / ".git/index").stat().st_mode
    assert bool(mode & 0o020) is (kind == "shared")
    git(copying.repo, "fsck", "--strict")


@pytest.fixture
def foreign() -> Iterator[Lab]:
    """A laboratory whose checkout another user can own; our home is closed to that one."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield lab_at(Path(folder), "copy")


@pytest.mark.service("root")
async def test_the_index_and_refs_of_another_owner_are_written_as_that_owner(foreign: Lab) -> None:
    base, changeset = await begun(foreign)
    dated(foreign)
    trace = armed(foreign)
    foreign.trees.home.chmod(0o700)
    for place in (foreign.repo, *foreign.repo.rglob("*")):
        os.lchown(place, 65534, 65534)

    await merged(foreign, base, changeset, order("merge"))

    owners = {place.lstat().st_uid for place in (foreign.repo, *foreign.repo.rglob("*"))}
    assert owners == {65534}
    assert not trace.exists()


async def test_a_lock_that_another_git_holds_is_a_conflict(copying: Lab) -> None:
    base, changeset = await begun(copying)
    (copying.repo / ".git/index.lock").touch()

    with pytest.raises(Conflict, match="index"):
        await copying.apply(base, changeset, order("merge"))

    assert (copying.repo / "gone.txt").exists()
