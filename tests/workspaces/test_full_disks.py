"""A disk without room, met by whatever writes: named as such, and nothing is lost."""

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from handovers import FILES, order
from laboratory import Lab, git, started
from patchyard.clients.git import Git
from patchyard.domain.errors import Unavailable, WorkFailed
from patchyard.workspaces.bases import run
from patchyard.workspaces.materials import reading
from patchyard.workspaces.pinned import GitTrees
from patchyard.workspaces.store import init

pytestmark = [pytest.mark.anyio, pytest.mark.service("root")]


@contextlib.contextmanager
def mounted(place: Path, options: str) -> Iterator[None]:
    """Mount a small file system in memory."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for almost nothing."""
    place = tmp_path / "tiny"
    place.mkdir()
    with mounted(place, "size=64k,nr_inodes=8"):
        yield place


def test_a_full_disk_is_said_to_be_full_by_whatever_meets_it(tiny: Path, tmp_path: Path) -> None:
    git = Git(home=tmp_path, config=tmp_path / "config")
    large = tmp_path / "large"
    large.write_bytes(os.urandom(200_000))

    with pytest.raises(Unavailable, match="No space left") as caught:
        init(git, tiny / "store", "sha1")
    with pytest.raises(Unavailable, match="No space left"):
        run("cp", str(large), str(tiny / "copy"))

    assert caught.value.exit_code == 4
    assert "nothing is lost" in caught.value.hint


async def test_a_file_git_finds_no_room_for_is_laid_to_the_disk(copying: Lab, tiny: Path) -> None:
    copying.write({"large": os.urandom(90_000)})
    copying.commit()
    reader = Git(home=copying.repo.parent, config=copying.repo.parent / "config")
    index = copying.repo.parent / "index"
    there = reader.at(copying.repo / ".git", work_tree=tiny, index=index)

    with pytest.raises(Unavailable, match=r"unable to write file.*No space left"):
        there.run("read-tree", "--reset", "-u", "HEAD", cwd=tiny)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE])
def test_what_the_machine_refuses_is_not_laid_to_a_change_of_the_tree(number: int) -> None:
    with pytest.raises(Unavailable, match=os.strerror(number)), reading("root"):
        raise OSError(number, os.strerror(number), "scratch")
    with pytest.raises(WorkFailed, match="root changed while it was read"), reading("root"):
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), "file")


async def test_a_home_on_a_full_disk_refuses_a_base(copying: Lab, tiny: Path) -> None:
    await started(copying)

    with pytest.raises(Unavailable, match="No space left"):
        await GitTrees(tiny).snapshot(copying.repo)


async def test_a_result_that_finds_no_room_is_not_laid_to_its_setup(copying: Lab) -> None:
    base = await started(copying)
    changeset = await copying.changed(base, {"big": os.urandom(2_000_000)})
    place = copying.repo.parent / "plans"
    with (
        mounted(place, "size=1m,mode=0711"),
        pytest.raises(Unavailable, match="No space left") as caught,
    ):
        await copying.workspace(base, "w2", tree=changeset.tree)
    assert "nothing is lost" in caught.value.hint


@pytest.mark.parametrize("to", ["worktree", "branch", "merge"])
async def test_a_checkout_on_a_full_disk_stays_as_it_is(copying: Lab, to: str) -> None:
    with mounted(copying.repo, "size=600k"):
        git(copying.repo, "init", "-q", "-b", "main")
        copying.write(FILES)
        copying.commit()
        base = await copying.base()
        changeset = await copying.changed(base, {"a.txt": "less\n", "big": os.urandom(900_000)})

        with pytest.raises(Unavailable, match="No space left") as caught:
            await copying.apply(base, changeset, order(to))

        assert "nothing is lost" in caught.value.hint
        assert git(copying.repo, "--no-optional-locks", "status", "--porcelain") == ""
        assert git(copying.repo, "branch", "--list") == "* main\n"
        assert not list((copying.repo / ".git").glob("patchyard-*"))
