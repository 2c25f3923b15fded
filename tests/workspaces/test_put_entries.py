"""What a capture put into a tree, beside what git says of the tree."""

from collections.abc import Mapping, Sequence

import pytest

from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.workspaces.put_entries import Entry, PutEntries

ONE, TWO = "1" * 40, "2" * 40
FILE, PROGRAM = "100644", "100755"
KNOWN: Mapping[str, Entry] = {"old": (FILE, ONE), "kept": (FILE, ONE)}


def put() -> PutEntries:
    """A new file, a changed one, one put as it was, and one taken away."""
    entries = PutEntries()
    entries.take_away("old", at=1.25)
    entries.put("new", FILE, ONE, at=2.5)
    entries.put("kept", FILE, ONE, at=3.0)
    return entries


def added(path: str, mode: str = FILE, blob: str = ONE) -> Change:
    return Change(path=path, status=ChangeStatus.ADDED, mode=mode, blob=blob)


def deleted(path: str) -> Change:
    return Change(path=path, status=ChangeStatus.DELETED, old_mode=FILE, old_blob=ONE)


def renamed(old_path: str, path: str) -> Change:
    return Change(
        path=path, old_path=old_path, status=ChangeStatus.RENAMED, mode=FILE, blob=ONE, old_blob=ONE
    )


@pytest.mark.parametrize(
    ("changes", "odd"),
    [
        pytest.param([added("new"), deleted("old")], set(), id="the same"),
        pytest.param([renamed("old", "new")], set(), id="the same, as a rename"),
        pytest.param([added("new")], {"old"}, id="still there"),
        pytest.param([deleted("old")], {"new"}, id="not there"),
        pytest.param([added("new", PROGRAM), deleted("old")], {"new"}, id="another mode"),
        pytest.param([added("new", blob=TWO), deleted("old")], {"new"}, id="another content"),
        pytest.param([added("new"), deleted("old"), added("x")], {"x"}, id="one more"),
        pytest.param([added("x"), deleted("old")], {"new", "x"}, id="another path"),
        pytest.param([added("new"), deleted("old"), deleted("kept")], {"kept"}, id="lost"),
        pytest.param([added("new"), added("old")], {"old"}, id="there again"),
        pytest.param([], {"new", "old"}, id="nothing"),
    ],
)
def test_what_git_says_otherwise_is_odd(changes: Sequence[Change], odd: set[str]) -> None:
    assert put().odd(changes, KNOWN) == odd


def test_each_path_has_its_time() -> None:
    assert dict(put()) == {"old": 1.25, "new": 2.5, "kept": 3.0}
    assert put().get("x") is None
    assert len(put()) == 3


def test_the_last_word_on_a_path_holds() -> None:
    entries = PutEntries()
    entries.take_away("a", at=1.0)
    entries.put("a", FILE, "a" * 64, at=2.0)  # an id of SHA-256
    assert entries.odd([added("a", blob="a" * 64)], {}) == set()
    assert entries["a"] == 2.0
