"""What others may swap for a FIFO or a device is opened by one function, which waits for none."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from patchyard.clients.devcontainers_cli import _read
from patchyard.clients.reader import NotPlain, plain_file
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.workspaces.patches import _sync
from patchyard.workspaces.view import _read_rules


def fifo(place: Path) -> None:
    os.mkfifo(place)


def device(place: Path) -> None:
    place.symlink_to("/dev/zero")


def folder(place: Path) -> None:
    place.mkdir()


@pytest.mark.parametrize("make", [fifo, device, folder])
def test_what_is_no_plain_file_is_refused_and_not_waited_for(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    place = tmp_path / "file"
    make(place)
    with (
        pytest.raises(NotPlain, match="changed its kind"),
        plain_file(place, follows=True),
    ):
        raise AssertionError("it was opened")


def test_a_link_is_followed_only_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    with plain_file(tmp_path / "link", follows=True) as (descriptor, status):
        assert os.read(descriptor, 10) == b"text"
        assert status.st_size == 4
    with pytest.raises(OSError, match="symbolic links"), plain_file(tmp_path / "link"):
        raise AssertionError("it was opened")


def is_swapped(place: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let a file be a FIFO as soon as it was looked at."""
    look = getattr(Path, name)

    def looked(self: Path, **how: bool) -> object:
        found = look(self, **how)
        if self == place and place.is_fifo() is False:
            place.unlink()
            os.mkfifo(place)
        return found

    monkeypatch.setattr(Path, name, looked)


def test_a_file_of_rules_that_becomes_a_fifo_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "exclude"
    place.write_text("*.o\n")
    assert _read_rules(place) == b"*.o\n"
    with monkeypatch.context() as patched:
        is_swapped(place, patched, "stat")
        assert _read_rules(place) in {b"", b"*.o\n"}
    fifo(tmp_path / "pipe")
    assert _read_rules(tmp_path / "pipe") == b""


def test_a_file_that_the_devcontainers_cli_left_and_becomes_a_fifo_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "Dockerfile"
    place.write_text("FROM x\n")
    assert _read(place) == "FROM x\n"
    with monkeypatch.context() as patched:
        is_swapped(place, patched, "stat")
        assert _read(place) == "FROM x\n"
    place.unlink()
    fifo(place)
    with pytest.raises(EnvironmentUnavailable, match="no plain file"):
        _read(place)


def test_a_patch_that_becomes_a_fifo_before_it_is_synced_is_refused(tmp_path: Path) -> None:
    fifo(tmp_path / "out.patch")
    at = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(NotPlain):
            _sync("out.patch", at)
    finally:
        os.close(at)
