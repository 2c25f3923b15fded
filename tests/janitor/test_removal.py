"""Deleting what somebody hostile has arranged."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from depths import deepened
from patchyard.clients.mounts import unmount
from patchyard.clients.removal import (
    DEEPEST,
    MountedInside,
    mounts_below,
    remove_tree,
    set_aside,
    size_of,
)

needs_root = pytest.mark.service("root")


def test_a_link_is_deleted_and_what_it_names_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    (tree / "inner/link").symlink_to(kept)
    (tree / "file").symlink_to(kept / "file")
    remove_tree(tree)
    assert not tree.exists()
    assert (kept / "file").read_text() == "mine"


def test_a_link_in_place_of_the_tree_is_deleted_alone(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")
    (tmp_path / "tree").symlink_to(kept)
    remove_tree(tmp_path / "tree")
    assert (kept / "file").read_text() == "mine"
    assert not (tmp_path / "tree").is_symlink()


def test_what_is_not_there_is_fine(tmp_path: Path) -> None:
    remove_tree(tmp_path / "none")
    remove_tree(tmp_path / "none/of/it")


def test_a_tree_deeper_than_descriptors_reach_is_deleted(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    deepened(tree, 3000)
    remove_tree(tree)
    assert not tree.exists()


def test_folders_that_were_closed_are_deleted(tmp_path: Path) -> None:
    closed = tmp_path / "tree/closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "inner/file").write_text("x")
    (closed / "inner").chmod(0)
    closed.chmod(0)
    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


@needs_root
def test_a_bind_mount_in_the_tree_keeps_all_of_it(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")
    inside = tmp_path / "tree/a b"
    inside.mkdir(parents=True)
    (tmp_path / "tree/other").write_text("x")
    subprocess.run(["mount", "--bind", kept, inside], check=True)
    try:
        assert list(mounts_below(tmp_path / "tree")) == [str(inside)]
        with pytest.raises(MountedInside, match="a b"):
            remove_tree(tmp_path / "tree")
        assert (tmp_path / "tree/other").exists()
        assert (kept / "file").read_text() == "mine"
    finally:
        unmount(inside)


@needs_root
@pytest.mark.parametrize("is_file", [False, True])
def test_a_mount_that_was_not_seen_beforehand_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_file: bool
) -> None:
    kept, inside = tmp_path / "kept", tmp_path / "tree/inside"
    inside.parent.mkdir()
    if is_file:
        kept.write_text("mine")
        inside.touch()
    else:
        kept.mkdir()
        (kept / "file").write_text("mine")
        inside.mkdir()
    subprocess.run(["mount", "--bind", kept, inside], check=True)
    monkeypatch.setattr("patchyard.clients.removal.MOUNTINFO", tmp_path / "none")
    (tmp_path / "none").touch()
    try:
        with pytest.raises(MountedInside, match="inside"):
            remove_tree(tmp_path / "tree")
        assert kept.read_text() == "mine" if is_file else (kept / "file").read_text() == "mine"
    finally:
        unmount(inside)


def test_what_is_set_aside_is_not_there_any_more_and_can_be_deleted(tmp_path: Path) -> None:
    place = tmp_path / "folder/tree"
    (place / "inner").mkdir(parents=True)
    gone = set_aside(place)
    assert not place.exists()
    remove_tree(gone)
    assert list(place.parent.iterdir()) == []


WRITING = """
import os, sys
at = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
print("at work", flush=True)
try:
    while True:
        os.close(os.open("go", os.O_CREAT | os.O_WRONLY, dir_fd=at))
except FileNotFoundError:
    pass  # the folder is gone
"""


@pytest.mark.parametrize("inner", ["", "a/b"])
def test_a_tree_that_a_process_goes_on_writing_into_is_deleted(tmp_path: Path, inner: str) -> None:
    tree = tmp_path / "tree"
    written = tree / inner
    written.mkdir(parents=True)
    command = [sys.executable, "-c", WRITING, str(written)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writing:
        try:
            assert writing.stdout is not None
            assert writing.stdout.readline() == b"at work\n"
            remove_tree(tree)
            assert not tree.exists()
            assert writing.wait(timeout=60) == 0
        finally:
            writing.kill()


def test_a_tree_that_is_never_empty_is_an_error_and_not_an_endless_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    real = os.rmdir

    def filled(name: str, *, dir_fd: int) -> None:
        (tree / "go").touch()
        real(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", filled)
    with pytest.raises(OSError, match="not empty"):
        remove_tree(tree)


def test_a_size_counts_a_file_with_two_names_once(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_bytes(b"x" * 1_000_000)
    alone = size_of(tree)
    (tree / "b").hardlink_to(tree / "a")
    assert size_of(tree) == alone >= 1_000_000
    assert size_of(tmp_path / "none") == 0


def test_an_ordinary_user_deletes_folders_that_were_closed(ordinary: Path) -> None:
    (ordinary / "tree/closed/inner").mkdir(parents=True)
    (ordinary / "tree/closed/inner/file").write_text("x")
    (ordinary / "tree/closed").chmod(0)
    remove_tree(ordinary / "tree")
    assert list(ordinary.iterdir()) == []


def test_names_that_deletion_itself_would_take_do_no_harm(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number in range(1, 4):
        (tree / f".gone-{number}" / "full").mkdir(parents=True)
    deep = tree / "/".join(["d"] * (DEEPEST + 10))
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    remove_tree(tree)
    assert not tree.exists()
