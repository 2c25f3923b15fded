"""What lies in the place of a file of git's and is none: git would wait for it without end."""

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from laboratory import Lab, git, started
from patchyard.clients.git_files import MAX_TEXT_BYTES
from patchyard.clients.glimpse import glimpse
from patchyard.contracts.handover import Order
from patchyard.domain.errors import UsageError
from patchyard.workspaces.commits import broken_refs
from patchyard.workspaces.handover import GitHandOver

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

NAMES = (
    *("HEAD", "config", "config.worktree", "index", "info/attributes", "info/exclude"),
    *("packed-refs", "shallow", "logs/HEAD", "refs/heads/other", "refs/heads/main"),
    *("objects/ab/0123", "objects/info/alternates", "objects/pack/p.idx", "worktrees/w/HEAD"),
)


def _pipe(place: Path) -> None:
    os.mkfifo(place)


def _socket(place: Path) -> None:
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as made, contextlib.chdir(place.parent):
        made.bind(place.name)


def _device(place: Path) -> None:
    place.symlink_to("/dev/zero")


def _link_to_a_pipe(place: Path) -> None:
    os.mkfifo(place.with_name("elsewhere"))
    place.symlink_to("elsewhere")


def put(repo: Path, name: str, make: Callable[[Path], None]) -> None:
    place = repo / ".git" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    make(place)


async def test_a_named_pipe_in_the_place_of_a_file_of_gits_is_named_at_once(copying: Lab) -> None:
    await started(copying)
    for name in NAMES:
        place, kept = copying.repo / ".git" / name, copying.repo / "kept"
        with contextlib.suppress(FileNotFoundError):
            place.rename(kept)
        put(copying.repo, name, _pipe)

        with pytest.raises(UsageError, match=f"/.git/{name} is no file") as caught:
            await copying.base()

        assert caught.value.exit_code == 2
        assert "move it away" in caught.value.hint
        place.unlink()
        if kept.exists():
            kept.rename(place)


@pytest.mark.parametrize("make", [_socket, _device, _link_to_a_pipe])
async def test_so_is_whatever_else_has_no_end(copying: Lab, make: Callable[[Path], None]) -> None:
    await started(copying)
    put(copying.repo, "packed-refs", make)

    with pytest.raises(UsageError, match=r"/.git/packed-refs is no file"):
        await copying.base()


async def test_a_configuration_without_an_end_is_not_read(copying: Lab) -> None:
    await started(copying)
    os.truncate(copying.repo / ".git/config", MAX_TEXT_BYTES + 1)

    with pytest.raises(UsageError, match=r"/.git/config is larger than any config"):
        await copying.base()


@pytest.mark.parametrize("key", ["include.path", "includeIf.gitdir:/x.path"])
async def test_a_pipe_that_a_configuration_includes_is_named(copying: Lab, key: str) -> None:
    await started(copying)
    (copying.repo / "conf").write_text("[Include]\n\tpath = pipe\n")
    git(copying.repo, "config", key, "../conf")
    os.mkfifo(copying.repo / "pipe")

    with pytest.raises(UsageError, match=r"/pipe is no file"):
        await copying.base()


async def test_a_linked_work_tree_is_looked_at_with_what_it_shares(
    copying: Lab, tmp_path: Path
) -> None:
    await started(copying)
    git(copying.repo, "worktree", "add", "-q", str(tmp_path / "linked"))
    put(copying.repo, "worktrees/linked/config.worktree", _pipe)

    with pytest.raises(UsageError, match=r"linked/config.worktree is no file"):
        await copying.trees.snapshot(tmp_path / "linked")
    put(copying.repo, "worktrees/linked/config.worktree", Path.touch)
    put(copying.repo, "packed-refs", _pipe)
    with pytest.raises(UsageError, match=r"/packed-refs is no file"):
        await copying.trees.snapshot(tmp_path / "linked")


@pytest.mark.parametrize("to", ["worktree", "merge", "branch"])
async def test_an_apply_and_its_way_back_name_it_and_change_nothing(copying: Lab, to: str) -> None:
    base = await started(copying)
    changeset = await copying.changed(base, {"a.txt": "new\n"})
    order = Order(to=to, name="side", message="new")
    receipt = await copying.apply(base, changeset, order)
    put(copying.repo, "packed-refs", _pipe)

    with pytest.raises(UsageError, match=r"packed-refs is no file"):
        await GitHandOver(copying.trees).take_back(base, changeset, receipt)
    with pytest.raises(UsageError, match=r"packed-refs is no file"):
        await copying.apply(base, changeset, order)


async def test_a_look_at_one_commit_and_at_refs_names_it(copying: Lab) -> None:
    await started(copying)
    put(copying.repo, "info/grafts", _pipe)

    for look in (lambda: glimpse(copying.repo, "head"), lambda: broken_refs(copying.repo)):
        with pytest.raises(UsageError, match=r"info/grafts is no file"):
            look()


async def test_a_socket_that_a_monitor_of_gits_listens_on_is_fine(copying: Lab) -> None:
    await started(copying)
    put(copying.repo, "fsmonitor--daemon.ipc", _socket)

    assert (await copying.base()).tree


async def test_a_link_to_the_null_device_is_an_empty_file(copying: Lab) -> None:
    await started(copying)
    put(copying.repo, "info/exclude", lambda place: place.symlink_to(os.devnull))

    assert (await copying.base()).tree
