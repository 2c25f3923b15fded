"""The sight of a repository: a checkout as it lies there, and one commit of it."""

import hashlib
import os
from pathlib import Path

import pytest

from laboratory import git
from memory import Growth
from patchyard.clients.glimpse import FILE_BYTES, glimpse
from patchyard.clients.inventory import MOST_ENTRIES, MOST_FILES, inventory
from patchyard.domain.errors import UsageError

MIB = 1024 * 1024


def test_small_plain_files_alone_are_read_and_nothing_stays_open(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_text("f\n")
    (tmp_path / "large").write_bytes(bytes(FILE_BYTES + 1))
    (tmp_path / "whole").write_bytes(bytes(FILE_BYTES))
    (tmp_path / "link").symlink_to("d/f")
    (tmp_path / "way").symlink_to("d")
    os.mkfifo(tmp_path / "pipe")
    sight = glimpse(tmp_path, None)
    before = len(list(Path("/proc/self/fd").iterdir()))

    assert sight.read("d/f") == b"f\n"
    assert sight.read("whole") == bytes(FILE_BYTES)
    for path in ("d", "large", "link", "way/f", "pipe", "none", "none/f"):
        assert sight.read(path) is None

    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_a_file_of_a_checkout_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("hashed\n")
    sight = glimpse(tmp_path, None)
    assert sight.read("f") == b"hashed\n"
    (tmp_path / "f").write_text("exchanged\n")
    assert sight.read("f") == b"hashed\n"
    assert glimpse(tmp_path, None).read("f") == b"exchanged\n"


def test_a_commit_is_read_as_it_was(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/f").write_text("old\n")
    (tmp_path / "large").write_bytes(bytes(FILE_BYTES + 1))
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    (tmp_path / "d/e/f").write_text("new\n")
    sight = glimpse(tmp_path, "head")

    assert inventory(sight, "d").files == {"d/e/f": b"old\n"}
    assert sight.names() == ("d", "large")
    assert sight.names("none") == ()
    assert sight.read("d") is sight.read("large") is sight.read("none") is None


def test_a_checkout_and_its_commit_have_the_same_inventory(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/f").write_text("f\n")
    (tmp_path / "d/large").write_bytes(bytes(FILE_BYTES + 1))
    (tmp_path / "d/link").symlink_to("../nowhere")
    (tmp_path / "d/way").symlink_to("e", target_is_directory=True)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    (tmp_path / "d/empty").mkdir()  # which git does not keep

    here, there = (inventory(glimpse(tmp_path, ref), "d") for ref in (None, "head"))
    assert here == there
    assert here.unhashed == ""
    assert here.paths == {"d/e/f", "d/large", "d/link", "d/way"}
    assert here.links == {"d/link": b"../nowhere", "d/way": b"e"}


@pytest.mark.parametrize("ref", [None, "head"])
def test_a_large_file_is_hashed_by_pieces(tmp_path: Path, ref: str | None) -> None:
    git(tmp_path, "init", "-q")
    large = os.urandom(48 * MIB)
    (tmp_path / "large").write_bytes(large)
    expected = hashlib.sha256(large).digest()
    del large
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    growth = Growth()
    found = inventory(glimpse(tmp_path, ref), "large")
    assert growth.most < 16 * MIB
    assert found.large == {"large": expected}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "large").write_bytes(bytes(FILE_BYTES + 1))
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    blob = git(tmp_path, "rev-parse", "HEAD:large").strip()
    here, there = glimpse(tmp_path, None), glimpse(tmp_path, "head")
    (listed,), (kept,) = here.entries("large"), there.entries("large")
    (tmp_path / "large").write_bytes(bytes(FILE_BYTES + 2))
    (tmp_path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    assert here.digest(listed) is here.content(listed) is None
    assert there.digest(kept) is there.content(kept) is None


@pytest.mark.parametrize("ref", ["head", "HEAD"])
def test_a_repository_without_a_commit_is_named_with_the_cure(tmp_path: Path, ref: str) -> None:
    git(tmp_path, "init", "-q")
    with pytest.raises(UsageError, match="has no commit yet") as refused:
        glimpse(tmp_path, ref)
    assert "git -C" in refused.value.hint


def test_a_submodule_in_a_commit_cannot_be_hashed(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    cached = f"160000,{'1' * 40},d/module"
    git(tmp_path, "update-index", "--add", "--cacheinfo", cached)
    git(tmp_path, "commit", "-q", "-m", "first")
    assert inventory(glimpse(tmp_path, "head"), "d").unhashed == "d/module is a special file"


def test_folders_alone_count_as_entries_too(tmp_path: Path) -> None:
    for number in range(MOST_ENTRIES):  # and the one that they lie in
        (tmp_path / "d" / str(number)).mkdir(parents=True)
    found = inventory(glimpse(tmp_path, None), "d")
    assert found.unhashed == "d holds more than 2,000 files and folders"


def test_as_many_files_as_are_allowed_may_lie_beside_a_folder(tmp_path: Path) -> None:
    (tmp_path / "d/last").mkdir(parents=True)
    for number in range(MOST_FILES):
        (tmp_path / "d" / f"f{number}").touch()
    assert inventory(glimpse(tmp_path, None), "d").unhashed == ""
    (tmp_path / "d/last/more").touch()
    assert inventory(glimpse(tmp_path, None), "d").unhashed == "d holds more than 500 files"
