import os
from pathlib import Path

from laboratory import git
from patchyard.clients.glimpse import FILE_BYTES, files_under, glimpse


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

    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_commit_is_read_as_it_was(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/f").write_text("old\n")
    (tmp_path / "large").write_bytes(bytes(FILE_BYTES + 1))
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    (tmp_path / "d/e/f").write_text("new\n")
    sight = glimpse(tmp_path, "head")

    assert files_under(sight, "d") == {"d/e/f": b"old\n"}
    assert sight.names() == ("d", "large")
    assert sight.names("none") == ()
    assert sight.read("d") is sight.read("large") is sight.read("none") is None
