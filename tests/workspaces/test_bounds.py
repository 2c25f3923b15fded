"""What an agent writes without end: a checkpoint keeps so much of it, and says the rest."""

import os
from pathlib import Path

import pytest

from keeping import everything, kept, own, stored
from laboratory import Lab
from patchyard.domain.manifest import LEFT_OUT
from patchyard.stores import blobs
from patchyard.stores.blobs import FileBlobs

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let little be very much."""
    monkeypatch.setattr(blobs, "SPACE_BYTES", 20_000)


async def test_a_file_for_which_there_is_no_room_is_named_and_taken_over(lab: Lab) -> None:
    keeper, root = await kept(lab)
    (root / "large").write_bytes(b"")
    os.truncate(root / "large", 1_000_000)  # a hole costs an agent nothing
    (root / "small").write_text("kept\n")
    own(root)
    await keeper.keep()
    os.utime(root / "small", ns=(1, 1))
    delta = await keeper.keep()
    assert keeper.manifest["large"].held == LEFT_OUT
    assert (keeper.manifest["large"].is_lacking, delta.stored) == (True, 0)
    manifest, there = dict(keeper.manifest), everything(root)
    (root / "small").write_text("changed\n")

    assert list(await keeper.restore(manifest)) == []

    assert everything(root) == there
    (root / "large").write_bytes(b"changed")
    assert list(await keeper.restore(manifest)) == ["large"]
    assert not (root / "large").exists()


def test_one_plan_stores_so_much_over_all_its_lives(tmp_path: Path) -> None:
    for number in range(3):
        space = FileBlobs(tmp_path / "space")
        stored(space, bytes([number]) * 6000)
    with FileBlobs(tmp_path / "space").writing() as writer:
        assert writer.room < 3000
