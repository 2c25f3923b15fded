"""What an agent writes without end: a checkpoint keeps so much of it, and says the rest."""

import os
from pathlib import Path

import pytest

from keeping import everything, kept, own, stored
from laboratory import Lab
from patchyard.domain.manifest import LEFT_OUT
from patchyard.stores import blobs
from patchyard.stores.blobs import FileBlobs
from patchyard.workspaces import survey

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


async def test_folders_beyond_the_deepest_are_left_out_and_said(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "MAX_DEPTH", 3)
    keeper, root = await kept(lab)
    (root / "1/2/3/4/5").mkdir(parents=True)
    (root / "1/2/3/4/5/deep").write_text("deep\n")
    (root / "1/2/3/file").write_text("kept\n")
    own(root)
    delta = await keeper.keep()
    assert delta.is_fuzzy
    assert "1/2/3/file" in keeper.manifest
    assert keeper.manifest["1/2/3/4"].held == LEFT_OUT
    assert "1/2/3/4/5" not in keeper.manifest


async def test_what_changes_under_our_eyes_makes_a_checkpoint_fuzzy(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, root = await kept(lab)
    (root / "steady").write_text("steady\n")
    (root / "moving").write_text("1\n")
    (root / "going").mkdir()
    own(root)
    keep_content = blobs.Writer.keep

    def changing(self: blobs.Writer, source: int, **further: int | None) -> str:
        digest = keep_content(self, source, **further)
        (root / "moving").write_text("2\n")
        if (root / "going").exists():
            (root / "going").rmdir()
        return digest

    monkeypatch.setattr(blobs.Writer, "keep", changing)
    assert (await keeper.keep()).is_fuzzy
    monkeypatch.undo()
    assert not (await keeper.keep()).is_fuzzy
    manifest = dict(keeper.manifest)
    (root / "moving").write_text("3\n")
    await keeper.restore(manifest)
    assert (root / "moving").read_text() == "2\n"
