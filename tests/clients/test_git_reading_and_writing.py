import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from endings import LONGEST_S
from patchyard.clients import mounts
from patchyard.clients.blobreader import BlobReader
from patchyard.clients.git import Git
from patchyard.clients.locks import locked
from patchyard.clients.placer import Placer
from patchyard.clients.process import read_stat
from patchyard.clients.reader import Reader
from patchyard.clients.treewriter import ChangedMeanwhile, TreeWriter, chunks_of, empty_tree
from patchyard.clients.waited import INTERRUPTS
from patchyard.domain.errors import Conflict, Unavailable, WorkFailed

NOTHING = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # git's well-known empty tree


@pytest.fixture
def git(tmp_path: Path) -> Git:
    (tmp_path / "home").mkdir()
    plain = Git(home=tmp_path / "home", config=tmp_path / "config")
    plain.run("init", "-q", "--bare", str(tmp_path / "store"))
    return plain.at(tmp_path / "store")


def test_the_users_variables_and_configuration_do_not_reach_git(
    git: Git, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "users").write_text("[core]\n\tpager = evil\n[alias]\n\tx = !evil\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "users"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "evil")
    monkeypatch.setenv("SECRET_TOKEN", "token")

    assert not {"GIT_EXTERNAL_DIFF", "SECRET_TOKEN"} & set(git.environment())
    assert b"evil" not in git.run("config", "--list")
    machine = git.at(git.git_dir, extra={"GIT_CONFIG_SYSTEM": str(tmp_path / "users")})
    assert b"evil" not in machine.run("config", "--list")
    git.run("config", "core.hooksPath", "/evil")
    assert git.run("config", "core.hooksPath") == b"/dev/null\n"


def written(git: Git, number: int = 0) -> str:
    with TreeWriter(git, NOTHING) as writer:
        writer.put("a", "100644", 3, [b"%02d\n" % number])
        return writer.finish()


def test_who_was_killed_over_a_packs_name_blocks_nobody(git: Git, tmp_path: Path) -> None:
    assert git.git_dir is not None
    tree = written(git)
    (pack,) = (git.git_dir / "objects" / "pack").glob("*.pack")
    git.run("init", "-q", "--bare", str(tmp_path / "other"))
    other = tmp_path / "other"
    (other / "objects" / "pack" / pack.name).with_suffix(".keep").touch()

    assert written(git.at(other)) == tree

    assert [place.suffix for place in (other / "objects" / "pack").iterdir()].count(".keep") == 0


def test_several_may_write_the_same_objects_at_once(git: Git) -> None:
    with ThreadPoolExecutor(4) as pool:
        for number in range(15):
            trees = list(pool.map(written, [git] * 4, [number] * 4))
            assert len(set(trees)) == 1


def test_a_failure_keeps_gits_own_words(git: Git) -> None:
    with pytest.raises(WorkFailed, match="fatal") as caught:
        git.run("cat-file", "blob", "nope")
    assert "nope" in caught.value.details["stderr"]


def test_a_missing_git_and_one_that_hangs_are_said_plainly(
    git: Git, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(WorkFailed, match="longer than"):
        git.attempt("version", timeout_s=0.1)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Unavailable):
        git.attempt("version")


@pytest.mark.parametrize("trap", ["true", "trap '' TERM"])
def test_an_interrupt_ends_a_git_that_waits_with_what_it_began(
    git: Git, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trap: str
) -> None:
    said = tmp_path / "said"
    (tmp_path / "git").write_text(
        f"#!/bin/sh\n{trap}\nsleep 600 &\necho $$ $! >{said}.new\nmv {said}.new {said}\nwait\n"
    )
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(git.attempt, "version")
        until(said.exists)
        INTERRUPTS.come()
        with pytest.raises(asyncio.CancelledError):
            waiting.result(LONGEST_S)

    pids = [int(pid) for pid in said.read_text().split()]
    until(lambda: not any(is_running(pid) for pid in pids))
    assert not INTERRUPTS.groups


def test_a_git_that_begins_after_an_interrupt_is_not_ended_by_it(git: Git) -> None:
    INTERRUPTS.come()

    assert git.run("version").startswith(b"git version")


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + LONGEST_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether a process has not ended; a zombie has."""
    found = read_stat(pid)
    return found is not None and found.state not in "ZX"


def test_a_tree_is_written_and_read_back(git: Git) -> None:
    with TreeWriter(git, NOTHING) as writer:
        blob = writer.put('odd "\\\n name', "100755", 5, [b"he", b"llo"])
        tree = writer.finish()

    assert git.run("cat-file", "blob", blob) == b"hello"
    assert git.run("for-each-ref") == b""
    with BlobReader(git) as blobs:
        assert blobs.content(blob) == b"hello"
        with pytest.raises(WorkFailed, match="no blob"):
            blobs.content("0" * 40)
    with TreeWriter(git, tree) as writer:
        writer.delete('odd "\\\n name')
        assert writer.finish() == NOTHING == empty_tree(like=NOTHING)


def test_a_tree_that_git_refuses_is_an_error_and_leaves_no_report(git: Git) -> None:
    def write() -> None:
        with TreeWriter(git, "0" * 40) as writer:
            writer.put("a", "100644", 1, [b"x"])
            writer.finish()

    with pytest.raises(WorkFailed, match="fast-import"):
        write()
    assert not list((git.git_dir or Path()).glob("fast_import_crash*"))


def test_leaving_a_writer_half_way_ends_its_process(git: Git) -> None:
    with TreeWriter(git, NOTHING) as writer:
        writer.put("a", "100644", 1, [b"x"])

    assert git.run("for-each-ref") == b""


def test_a_writer_that_dies_is_an_error_wherever_it_was(git: Git) -> None:
    def write_more(writer: TreeWriter) -> None:
        writer.put("b", "100644", 3_000_000, [b"x" * 3_000_000])

    for act in (write_more, TreeWriter.finish):
        with TreeWriter(git, NOTHING) as writer:
            writer.put("a", "100644", 1, [b"x"])
            writer._process.kill()
            writer._process.wait()
            with pytest.raises(Unavailable, match="fast-import was killed by SIGKILL"):
                act(writer)


def test_a_reader_that_dies_is_an_error_wherever_it_was(git: Git) -> None:
    large = git.run("hash-object", "-w", "--stdin", stdin=os.urandom(3_000_000)).decode().strip()
    with BlobReader(git) as blobs:
        pieces = blobs.chunks(large)
        next(pieces)
        blobs._process.kill()
        blobs._process.wait()
        with pytest.raises(Unavailable, match="was killed by SIGKILL inside"):
            list(pieces)
        with pytest.raises(Unavailable, match="was killed by SIGKILL before"):
            blobs.content(large)


def test_a_folder_that_cannot_be_entered_is_an_error_and_one_that_is_not_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_text("x")
    (tmp_path / "ln").symlink_to(".")
    with Reader(tmp_path) as reader:
        assert reader.status("none/f") is None
        assert reader.status("f/below") is None
        assert reader.status("ln/f") is None

        def refused(_path: str) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(reader, "folder", refused)
        with pytest.raises(PermissionError):
            reader.status("f")


def test_a_file_that_shrinks_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    with Reader(tmp_path) as reader, reader.opened("f") as (descriptor, _):
        assert b"".join(chunks_of(descriptor, 3)) == b"abc"
        with pytest.raises(ChangedMeanwhile):
            list(chunks_of(descriptor, 4))


def test_reading_follows_no_link_and_opens_no_device(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/f").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "d").symlink_to("../out")
    (root / "l").symlink_to("../out/f")
    os.mkfifo(root / "pipe")
    with Reader(root) as reader:
        assert reader.status("d/f") is None
        assert reader.status("none/f") is None
        assert reader.target("l") == b"../out/f"
        with pytest.raises(OSError, match="symbolic link"), reader.opened("l"):
            pass
        with pytest.raises(NotADirectoryError), reader.opened("d/f"):
            pass
        with pytest.raises(WorkFailed), reader.opened("pipe"):
            pass


def test_placing_follows_no_link_and_fails_whole(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/f").write_text("kept")
    root = tmp_path / "root"
    root.mkdir()
    (root / "d").symlink_to("../out")
    (root / "l").symlink_to("../out/f")
    placer = Placer(root)

    with pytest.raises(OSError, match="directory"):
        placer.put("d/f", "100644", [b"x"])
    with pytest.raises(OSError, match="directory"):
        placer.remove("d/f")
    placer.put("l", "100644", [b"new"])
    placer.put("deep/er/x", "100755", [b"x"])
    (root / "full").mkdir()
    (root / "full/x").write_text("x")
    with pytest.raises(IsADirectoryError):
        placer.put("full", "100644", [b"x"])

    assert (tmp_path / "out/f").read_text() == "kept"
    assert (root / "l").read_text() == "new"
    assert not (root / "l").is_symlink()
    placer.remove("deep/er/x")
    assert sorted(place.name for place in root.iterdir()) == ["d", "full", "l"]


def test_a_lock_is_held_against_others_and_freed_at_the_end(tmp_path: Path) -> None:
    taken = locked(tmp_path / "deep/lock")
    again = locked(tmp_path / "deep/lock", timeout_s=0.05)
    with taken, pytest.raises(Conflict), again:
        pass
    with locked(tmp_path / "deep/lock", timeout_s=0):
        pass


def test_unmounting_what_is_not_mounted_is_fine(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        mounts.unmount(tmp_path)
        mounts.unmount(tmp_path / "none")
    assert not mounts.is_mounted(tmp_path)
    assert not mounts.is_mounted(tmp_path / "none")


@pytest.mark.service("root")
@pytest.mark.service("overlay")
def test_an_overlay_with_odd_characters_in_its_paths_mounts(tmp_path: Path) -> None:
    place = tmp_path / "a:b,c\\d e"
    for name in ("lower", "upper", "work", "root"):
        (place / name).mkdir(parents=True)
    (place / "lower/f").write_text("f")
    mounts.mount_overlay(
        place / "root", lower=[place / "lower"], upper=place / "upper", work=place / "work"
    )
    try:
        assert (place / "root/f").read_text() == "f"
        options = subprocess.run(["cat", "/proc/mounts"], capture_output=True, check=True).stdout
        line = next(line for line in options.splitlines() if b"a:b,c" in line)
        assert b"nosuid,nodev" in line
        with pytest.raises(OSError, match="overlay"):
            mounts.mount_overlay(
                place / "none", lower=[place / "lower"], upper=place / "upper", work=place / "work"
            )
    finally:
        mounts.unmount(place / "root")
    assert not mounts.is_mounted(place / "root")
