"""A disk that fails to sync and is not mounted anew: the plan goes back to its last checkpoint.

The kernel takes what it could not write for clean then, and a second sync succeeds over the loss.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mainjob.driver import Desk, finish, shell
from patchyard.clients.syncing import sync
from patchyard.domain.errors import Conflict, Unavailable
from patchyard.domain.machine import Unsynced, has_lost_writes
from patchyard.stores import packs
from patchyard.stores.blobs import FileBlobSpaces

Failing = Callable[[int], None]


def failing(number: int, *, once: Callable[[], bool] = lambda: True) -> Failing:
    """Return an fsync that the disk fails at one call on a pack: the first after `once` is true."""
    has_failed = False
    whole = os.fsync

    def fsync(descriptor: int) -> None:
        nonlocal has_failed
        named = Path(f"/proc/self/fd/{descriptor}").readlink().name
        if not has_failed and named.endswith(packs.SUFFIX) and once():
            has_failed = True
            raise OSError(number, os.strerror(number))
        whole(descriptor)

    return fsync


@pytest.mark.service("bubblewrap")
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_what_the_disk_lost_is_made_again_from_the_last_checkpoint(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    calls = [shell("echo 1 > kept"), shell("echo 2 > lost"), shell("echo 3 > c")]

    def written() -> list[Path]:
        return [*(desk.folder / "workspaces").rglob("lost")]

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(number, once=lambda: bool(written())))
        said = desk.run(*calls, finish())
    assert said.code == 4, said.message
    written()[0].write_bytes(b"")  # the page was thrown away, and the disk has none of it

    resumed = desk.agents("plan", "resume")

    assert resumed.code == 0, resumed.message
    patch_ = desk.agents("plan", "diff").data["patch"]
    assert ("+2\n" in patch_, "+3\n" in patch_) == (True, True)
    events = desk.agents("plan", "events").data["events"]
    (failure,) = [each for each in events if each["event"] == "PhaseFailed"]
    assert failure["details"]["unsynced"] is True
    (back,) = [each for each in events if each["event"] == "RolledBack"]
    assert (back["reason"], back["is_repeat"]) == ("the disk failed to write", True)


def test_what_a_pack_could_not_sync_is_not_taken_for_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "file"
    source.write_text("content")
    blobs = FileBlobSpaces(tmp_path / "checkpoints").of("P")

    def keep() -> str:
        with source.open("rb") as file, blobs.writing() as writer:
            return writer.keep(file.fileno())

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(errno.EIO))
        with pytest.raises(Unsynced):
            keep()
    again = FileBlobSpaces(tmp_path / "checkpoints").of("P")
    assert again.packed == {}
    blobs.require(keep())


def test_a_pack_of_a_dead_writer_that_fails_to_sync_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "file"
    source.write_text("content")
    spaces = FileBlobSpaces(tmp_path / "checkpoints")
    with source.open("rb") as file, spaces.of("P").writing() as writer:
        digest = writer.keep(file.fileno())
    (pack,) = (tmp_path / "checkpoints" / "P").glob("*.pack")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(errno.EIO))
        with pytest.raises(Unsynced):
            spaces.of("P").require(digest)

    spaces.of("P").require(digest)

    (anew,) = pack.parent.iterdir()
    assert (anew.suffix, anew == pack) == (pack.suffix, False)


def test_a_failed_disk_is_known_by_what_an_error_was_caused_by(tmp_path: Path) -> None:
    def caused(by: BaseException) -> Unavailable:
        error = Unavailable("no room")
        error.__cause__ = by
        return error

    assert has_lost_writes(caused(Unsynced(errno.ENOSPC, "No space left on device")))
    assert has_lost_writes(OSError(errno.EIO, "Input/output error"))
    assert has_lost_writes(Unavailable("the database cannot be used: disk I/O error"))
    assert not has_lost_writes(caused(OSError(errno.ENOSPC, "No space left on device")))
    descriptor = os.open(tmp_path, os.O_RDONLY)
    sync(descriptor)
    os.close(descriptor)
    with pytest.raises(OSError, match="Bad file") as caught:
        sync(descriptor)
    assert not has_lost_writes(caught.value)


def test_an_error_that_was_caused_by_itself_is_looked_at_once() -> None:
    error, other = Conflict("held"), Conflict("held too")
    error.__cause__ = error
    assert not has_lost_writes(error)
    error.__cause__, other.__cause__ = other, error
    assert not has_lost_writes(error)
    other.__context__ = OSError(errno.EIO, "Input/output error")
    assert has_lost_writes(error)
