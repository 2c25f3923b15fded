"""What git opens in a work tree by itself: a pipe there would hold it up without end."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from laboratory import Lab, git, started
from patchyard.clients.git_files import MAX_TEXT_BYTES
from patchyard.domain.errors import UsageError

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

RULES = (".gitattributes", ".gitignore")


def _pipe(place: Path) -> None:
    os.mkfifo(place)


def _link(place: Path) -> None:
    os.mkfifo(place.with_name("pipe"))
    place.symlink_to("pipe")


def _device(place: Path) -> None:
    place.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [_pipe, _link, _device])
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("folder", ["", "tracked/deep", "new", "new/deep"])
async def test_what_is_no_file_of_rules_is_named(
    copying: Lab, folder: str, name: str, make: Callable[[Path], None]
) -> None:
    await started(copying)
    (copying.repo / "tracked/deep").mkdir(parents=True)
    (copying.repo / "tracked/deep/f").touch()
    git(copying.repo, "add", "tracked")
    place = copying.repo / folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    make(place)

    with pytest.raises(UsageError, match=f"/{name} is no file") as refused:
        await copying.base()
    assert "fsck" not in refused.value.hint  # which knows of no rules


@pytest.mark.parametrize("name", RULES)
async def test_rules_without_an_end_are_not_read(copying: Lab, name: str) -> None:
    await started(copying)
    (copying.repo / name).touch()
    os.truncate(copying.repo / name, MAX_TEXT_BYTES + 1)

    with pytest.raises(UsageError, match=f"/{name} is larger than any {name}"):
        await copying.base()


async def test_what_is_ignored_is_not_looked_at(copying: Lab) -> None:
    await started(copying)
    (copying.repo / ".gitignore").write_text("/made/\nnew/*/\n/:*/\n")
    for folder in ("made", "new/odd\tname", ":(glob)*"):
        (copying.repo / folder).mkdir(parents=True)
        os.mkfifo(copying.repo / folder / ".gitignore")
        (copying.repo / folder / ".git").mkdir()
        os.mkfifo(copying.repo / folder / ".git/HEAD")

    assert (await copying.base()).tree


async def test_folders_and_links_to_nothing_are_no_rules(copying: Lab) -> None:
    await started(copying)
    (copying.repo / ".gitignore").unlink()
    (copying.repo / ".gitignore").mkdir()
    (copying.repo / "sub").mkdir()
    (copying.repo / "sub/.gitattributes").symlink_to(".gitattributes")
    (copying.repo / "sub/.gitignore").symlink_to("nothing")

    assert (await copying.base()).tree


def _nested(folder: Path) -> Path:
    """Make a repository of one commit and return its git directory."""
    git(folder.parent, "init", "-q", "-b", "main", folder.name)
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    return folder / ".git"


def _head(directory: Path) -> None:
    (directory / "HEAD").unlink()
    os.mkfifo(directory / "HEAD")


def _ref(directory: Path) -> None:
    (directory / "refs/heads/main").unlink()
    os.mkfifo(directory / "refs/heads/main")


def _elsewhere(directory: Path) -> None:
    there = directory.rename(directory.parent.with_name("elsewhere"))
    directory.write_text("gitdir: ../elsewhere\n")
    _head(there)


def _packed(directory: Path) -> None:
    os.mkfifo(directory / "packed-refs")


@pytest.mark.parametrize("put", [_head, _ref, _elsewhere, _packed])
async def test_a_pipe_in_a_repository_within_is_named(
    copying: Lab, put: Callable[[Path], None]
) -> None:
    await started(copying)
    put(_nested(copying.repo / "within"))

    with pytest.raises(UsageError, match="is no file"):
        await copying.base()


@pytest.mark.parametrize("put", [_head, _ref, _elsewhere, _packed])
async def test_so_is_one_in_a_submodule(copying: Lab, put: Callable[[Path], None]) -> None:
    await started(copying)
    directory = _nested(copying.repo / "sub")
    git(copying.repo, "add", "sub")
    put(directory)

    with pytest.raises(UsageError, match="is no file"):
        await copying.base()


@pytest.mark.parametrize("put", [_head, _ref, _elsewhere, _packed])
async def test_so_is_one_in_the_place_of_a_tracked_file(
    copying: Lab, put: Callable[[Path], None]
) -> None:
    await started(copying)
    (copying.repo / ".gitignore").write_text("a.txt\n")
    (copying.repo / "a.txt").unlink()
    put(_nested(copying.repo / "a.txt"))

    with pytest.raises(UsageError, match="is no file"):
        await copying.base()


async def test_a_repository_within_is_left_out_and_not_walked_through(copying: Lab) -> None:
    await started(copying)
    _nested(copying.repo / "within")
    (copying.repo / "within/sub").mkdir()
    os.mkfifo(copying.repo / "within/sub/.gitignore")

    assert (await copying.base()).left_out == ("within",)


async def test_a_folder_that_git_takes_for_no_repository_is_walked_through(copying: Lab) -> None:
    await started(copying)
    directory = _nested(copying.repo / "within")
    (directory / "HEAD").write_text("nothing\n")
    (copying.repo / "within/sub").mkdir()
    os.mkfifo(copying.repo / "within/sub/.gitignore")

    with pytest.raises(UsageError, match=r"within/sub/.gitignore is no file"):
        await copying.base()
