"""Indexes and trees that no command of git writes: each ends a snapshot by name, and at once."""

import hashlib
import struct
from collections.abc import Sequence

import pytest

from laboratory import Lab, git
from patchyard.domain.errors import UsageError, WorkFailed
from patchyard.workspaces.store import following

pytestmark = pytest.mark.anyio


def with_index(lab: Lab, paths: Sequence[bytes]) -> None:
    """Write an index whose entries are these paths, each with the content of `a`."""
    blob = bytes.fromhex(git(lab.repo, "rev-parse", "HEAD:a").strip())
    body = struct.pack(">4sII", b"DIRC", 2, len(paths))
    for path in paths:
        entry = struct.pack(">6IIIII20sH", *[0] * 6, 0o100644, 0, 0, 0, blob, len(path)) + path
        body += entry + bytes(8 - len(entry) % 8)
    digest = hashlib.sha1(body, usedforsecurity=False).digest()
    (lab.repo / ".git/index").write_bytes(body + digest)


def committed_as_written(lab: Lab, names: Sequence[str]) -> str:
    """Commit a tree with these names in this order, each with the content of `a`."""
    blob = bytes.fromhex(git(lab.repo, "rev-parse", "HEAD:a").strip())
    body = b"".join(b"100644 " + name.encode() + b"\0" + blob for name in names)
    words = ("hash-object", "-t", "tree", "-w", "--literally", "--stdin")
    tree = git(lab.repo, *words, stdin=body).strip()
    commit = git(lab.repo, "commit-tree", tree, "-m", "odd").strip()
    git(lab.repo, "update-ref", "HEAD", commit)
    return commit


@pytest.mark.timeout(60)
async def test_an_entry_of_an_index_without_a_path_is_named(copying: Lab) -> None:
    copying.write({"a": "1\n"})
    copying.commit()
    with_index(copying, [b"", b"a"])

    with pytest.raises(UsageError, match="an entry has no path") as caught:
        await copying.base()

    assert "`git reset`" in (caught.value.hint or "")


@pytest.mark.parametrize("names", [["b", "a"], ["a", "x", "b", "z"]])
@pytest.mark.parametrize("is_named", [False, True])
async def test_a_tree_out_of_order_is_named_before_any_work(
    copying: Lab, names: Sequence[str], is_named: bool
) -> None:
    copying.write({"a": "1\n"})
    copying.commit()
    commit = committed_as_written(copying, names)
    git(copying.repo, "reset", "-q", "--hard")

    with pytest.raises(UsageError, match="out of order") as caught:
        await copying.base(commit if is_named else None)

    assert commit[:12] in caught.value.message


async def test_names_in_the_order_of_bytes_are_in_order(copying: Lab) -> None:
    names = ["a", "b.c", "b/d", "b0", "\uffee", "\U0001f600", "\udcff", "ab\udc80", "é/x", "é.y"]
    copying.write(dict.fromkeys(names, "1\n"))
    commit = copying.commit()

    base = await copying.base(commit)

    assert set(names) <= set(await copying.trees.names(base))


def test_what_ends_in_the_middle_of_an_entry_is_an_error() -> None:
    with pytest.raises(WorkFailed, match="in the middle"):
        following(iter(()))
