"""Things that are used by many and returned by one."""

import os
import time
from pathlib import Path

import pytest

from patchyard.clients.locks import locked
from patchyard.clients.shelves import Shelf


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for shelves."""
    return tmp_path / "shelf"


def shelved(folder: Path, label: str = "here") -> Shelf:
    """Return a shelf with one thing that was asked for."""
    shelf = Shelf(folder, label)
    with shelf.using("thing") as place:
        place.mkdir(exist_ok=True)
        (place / "file").write_text("x")
    return shelf


def test_a_thing_goes_with_its_lock_and_its_mark(folder: Path) -> None:
    shelf = shelved(folder)
    assert shelf.names() == ["thing"]
    assert shelf.give_back("thing", unused_since=time.time() + 1)
    assert list(folder.iterdir()) == []
    assert shelf.give_back("thing", unused_since=time.time() + 1), "it can be repeated"


def test_what_was_asked_for_meanwhile_stays(folder: Path) -> None:
    shelf = shelved(folder)
    before = shelf.used("thing")
    later = before + 10
    os.utime(folder / ".thing.used", (later, later))
    assert not shelf.give_back("thing", unused_since=before)
    assert (folder / "thing/file").exists()


def test_what_another_installation_uses_stays(folder: Path) -> None:
    mine = shelved(folder)
    assert not mine.is_shared("thing")
    theirs = shelved(folder, "there")
    for shelf in (mine, theirs):
        assert shelf.is_shared("thing")
        assert not shelf.give_back("thing", unused_since=time.time() + 1)
    shelved(folder)
    assert (folder / ".thing.used").read_bytes() == b"here\nthere\n"


def test_an_empty_shelf_has_nothing(folder: Path) -> None:
    shelf = Shelf(folder / "none", "here")
    assert shelf.names() == []
    assert shelf.used("thing") <= time.time()


def test_who_waited_for_a_lock_that_was_deleted_waits_for_the_new_one(folder: Path) -> None:
    lock = folder / "lock"
    with locked(lock):
        waiting = os.open(lock, os.O_RDWR)
        lock.unlink()
    with locked(lock):
        assert not os.path.samestat(os.fstat(waiting), lock.stat())
    os.close(waiting)
