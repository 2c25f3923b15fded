"""Writes into a tree of another user's: root gives away what it made, and nothing else."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laboratory import AGENT
from patchyard.clients.placer import Placer

pytestmark = pytest.mark.service("root")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder of another user's, with a private file and folder of root's below a name of his."""
    made = tmp_path / "tree"
    made.mkdir()
    (made / "key").write_text("private")
    (made / "key").chmod(0o600)
    (made / "keys").mkdir(0o700)
    (made / "keys/key").write_text("private")
    os.chown(made, AGENT, AGENT)
    return made


def swapping(step: Callable[..., None], name: str, other: Path) -> Callable[..., None]:
    """`step`, after which the tree's owner puts another entry in the place of what it made."""

    def swapped(*args: Any, dir_fd: int, **options: Any) -> None:
        step(*args, dir_fd=dir_fd, **options)
        if name in (args[-1], os.fsdecode(args[-1])):
            place = Path(f"/proc/self/fd/{dir_fd}", name)
            place.rename(place.with_name("away"))
            other.rename(place)

    return swapped


@pytest.mark.parametrize("kind", ["100644", "120000"])
def test_what_is_made_in_a_tree_belongs_to_its_owner(tree: Path, kind: str) -> None:
    Placer(tree, inherits=True).put("a/b/c", kind, [b"x"])
    made = [tree / "a", tree / "a/b", tree / "a/b/c"]
    assert [each.lstat().st_uid for each in made] == [AGENT] * 3


@pytest.mark.parametrize("other", ["key", "keys"])
@pytest.mark.parametrize("is_exact", [True, False])
def test_what_another_put_in_place_of_a_new_folder_is_not_given_away(
    tree: Path, monkeypatch: pytest.MonkeyPatch, other: str, is_exact: bool
) -> None:
    mode = (tree / other).stat().st_mode
    monkeypatch.setattr(os, "mkdir", swapping(os.mkdir, "new", tree / other))
    with pytest.raises(OSError, match="put there meanwhile"):
        Placer(tree, inherits=True, is_exact=is_exact).put("new/file", "100644", [b"x"])
    found = (tree / "new").lstat()
    assert (found.st_uid, found.st_mode) == (0, mode)


def test_what_another_put_in_place_of_a_new_link_is_not_given_away(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "urandom", bytes)
    name = f".{os.getpid()}-{bytes(6).hex()}.new"
    monkeypatch.setattr(os, "symlink", swapping(os.symlink, name, tree / "key"))
    with pytest.raises(OSError, match="put there meanwhile"):
        Placer(tree, inherits=True).put("link", "120000", [b"elsewhere"])
    assert all(each.lstat().st_uid == 0 for each in tree.iterdir() if each.is_file())


def test_bits_are_set_through_no_link(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yonder = tmp_path / "yonder"
    yonder.mkdir(0o700)
    (tree / "link").symlink_to(yonder)
    monkeypatch.setattr(os, "mkdir", swapping(os.mkdir, "new", tree / "link"))
    with pytest.raises(OSError, match="put there meanwhile"):
        Placer(tree, owner=(AGENT, AGENT), is_exact=True).put("new/file", "100644", [b"x"])
    assert yonder.stat().st_mode & 0o777 == 0o700
