"""Two trees compared: git's answer for many files is read from a file, in pieces."""

import io
import resource
import tracemalloc
from pathlib import Path

import pytest

from patchyard.clients.git import Git
from patchyard.clients.treewriter import TreeWriter
from patchyard.domain.changeset import ChangeStatus
from patchyard.domain.errors import PatchyardError, WorkFailed
from patchyard.workspaces import store
from patchyard.workspaces.comparison import compare
from patchyard.workspaces.store import parts, parts_in

NOTHING = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # git's well-known empty tree
MANY = 20_000


@pytest.fixture
def git(tmp_path: Path) -> Git:
    (tmp_path / "home").mkdir()
    plain = Git(home=tmp_path / "home", config=tmp_path / "config")
    plain.run("init", "-q", "--bare", str(tmp_path / "store"))
    return plain.at(tmp_path / "store")


def tree(git: Git, names: list[str]) -> str:
    with TreeWriter(git, NOTHING) as writer:
        for name in names:
            writer.put(name, "100644", 2, [b"a\n"])
        return writer.finish()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_parts_of_a_file_are_those_of_the_same_bytes(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PIECE_BYTES", size)
    for output in (b"", b"\0", b"ab\0\0c\0", b"a\0b", b"\xff\xfe\0long one\0", b"\0\0x\0"):
        assert list(parts_in(io.BytesIO(output))) == list(parts(output))


def test_of_many_files_gits_answer_is_not_held_beside_the_entries(git: Git) -> None:
    names = [f"folder/with-a-long-name/{n:06}" for n in range(MANY)]
    after = tree(git, names)
    tracemalloc.start()
    try:
        changes = compare(git, NOTHING, after)
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [change.path for change in changes] == names
    assert {(change.status, change.added) for change in changes} == {(ChangeStatus.ADDED, 1)}
    answer = len(git.run("diff-tree", "-r", "-z", "--raw", "--numstat", NOTHING, after))
    assert most - held < answer  # with it in memory: over twice that


def test_a_comparison_that_git_refuses_is_told_in_its_words(git: Git) -> None:
    with pytest.raises(WorkFailed, match="git diff-tree failed: fatal: bad object"):
        compare(git, NOTHING, "1" * 40)


def test_output_that_the_disk_does_not_take_is_told(git: Git) -> None:
    after = tree(git, [f"{n:06}" for n in range(500)])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(PatchyardError):
            compare(git, NOTHING, after)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
