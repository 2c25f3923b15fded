"""A capture of what an agent leaves without end: holes cost little, and it gives way when asked."""

import hashlib
import os
from pathlib import Path

import pytest

from laboratory import Lab, git, started
from patchyard.clients.treewriter import TreeWriter
from patchyard.contracts.workspace import LookStopped
from patchyard.domain.changeset import Base
from patchyard.stores.blobs import CHUNK_BYTES

pytestmark = pytest.mark.anyio

SIZE = 5 * CHUNK_BYTES


def hole(place: Path, size: int = SIZE, *, data: bytes = b"", at: int = 0) -> None:
    with place.open("wb") as file:
        file.seek(at)
        file.write(data)
        file.truncate(size)


def unnamed_packs(base: Base) -> list[str]:
    """Packs that a git was killed over."""
    return [place.name for place in Path(base.store).rglob("tmp_pack_*")]


async def test_holes_with_equal_contents_are_given_to_git_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)
    for name in "abc":
        hole(root / name)
    hole(root / "longer", SIZE + 1)
    hole(root / "with-data", data=b"data", at=CHUNK_BYTES)
    hole(root / "elsewhere", data=b"data", at=2 * CHUNK_BYTES)
    given: list[str] = []
    put = TreeWriter.put

    def counted(writer: TreeWriter, path: str, *rest: object) -> str:
        given.append(path)
        return put(writer, path, *rest)  # type: ignore[arg-type]  # the rest is as put has it

    monkeypatch.setattr(TreeWriter, "put", counted)
    captured = await lab.workspaces.capture(base, ref)

    assert given == ["a", "elsewhere", "longer", "with-data"]
    blobs = {change.path: change.blob for change in captured.changes}
    for path, blob in blobs.items():
        content = (root / path).read_bytes()
        head = b"blob %d\0" % len(content)
        assert blob == hashlib.sha1(head + content, usedforsecurity=False).hexdigest()
        assert int(git(lab.repo, "--git-dir", base.store, "cat-file", "-s", str(blob))) == len(
            content
        )
    assert len(blobs) == 6


async def test_a_capture_that_is_stopped_ends_within_a_file_and_leaves_no_pack(lab: Lab) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)
    (root / "large").write_bytes(os.urandom(40 * CHUNK_BYTES))
    asked: list[bool] = []

    def is_stopped() -> bool:
        asked.append(bool(unnamed_packs(base)))
        return sum(asked) > 3  # some of it is written

    with pytest.raises(LookStopped):
        await lab.workspaces.capture(base, ref, is_stopped=is_stopped)

    assert unnamed_packs(base) == []
    captured = await lab.workspaces.capture(base, ref)
    assert [change.path for change in captured.changes] == ["large"]
