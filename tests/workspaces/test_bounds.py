"""What an agent writes without end: a checkpoint keeps so much of it, and says the rest."""

import os
from pathlib import Path
from typing import Any

import pytest

from keeping import Keeper, everything, kept, own, stored
from laboratory import Lab, started
from patchyard.domain.manifest import LEFT_OUT
from patchyard.stores import blobs
from patchyard.stores.blobs import CHUNK_BYTES, FileBlobs
from patchyard.workspaces import survey
from patchyard.workspaces.layers import LayerCache

pytestmark = pytest.mark.anyio
SMALL_BYTES = 200_000
HOLE_BLOCKS = 2 * CHUNK_BYTES // 512


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let little be very much."""
    monkeypatch.setattr(blobs, "SPACE_BYTES", SMALL_BYTES)


async def test_a_file_for_which_there_is_no_room_is_named_and_taken_over(lab: Lab) -> None:
    keeper, root = await kept(lab)
    (root / "large").write_bytes(os.urandom(1_000_000))
    (root / "small").write_text("kept\n")
    own(root)
    await keeper.keep()
    os.utime(root / "small", ns=(1, 1))
    delta = await keeper.keep()
    assert keeper.manifest["large"].held == LEFT_OUT
    assert (keeper.manifest["large"].is_lacking, delta.stored) == (True, 0)
    assert delta.unkept == []  # it was said before
    manifest, there = dict(keeper.manifest), everything(root)
    (root / "small").write_text("changed\n")

    assert list(await keeper.restore(manifest)) == []

    assert everything(root) == there
    (root / "large").write_bytes(b"changed")
    assert list(await keeper.restore(manifest)) == ["large"]
    assert not (root / "large").exists()


async def test_the_largest_files_are_left_out_first_whatever_their_names(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "SPACE_BYTES", 6 * CHUNK_BYTES)
    keeper, root = await kept(lab)
    (root / "deep/er").mkdir(parents=True)
    sizes = {"a": 5, "deep/er/b": 3, "c": 2, "z": 4}
    for path, size in sizes.items():
        (root / path).write_bytes(os.urandom(size * CHUNK_BYTES))
    (root / "small").write_text("kept\n")
    own(root)

    delta = await keeper.keep()

    assert [path for path in [*sizes, "small"] if keeper.manifest[path].is_lacking] == ["a", "z"]
    assert (delta.is_fuzzy, list(delta.unkept)) == (True, ["z", "a"])


async def test_holes_take_no_room_of_a_checkpoint_and_no_time(lab: Lab) -> None:
    keeper, root = await kept(lab)
    (root / "hole").write_bytes(b"")
    os.truncate(root / "hole", 2**40)  # to read it takes ten minutes
    for number in range(64):
        (root / f"small-{number}").write_bytes(b"")
        os.truncate(root / f"small-{number}", CHUNK_BYTES - number)
    own(root)

    delta = await keeper.keep()

    assert delta.unkept == []
    assert delta.stored < SMALL_BYTES
    manifest, there = dict(keeper.manifest), stats(root)
    (root / "hole").unlink()
    (root / "small-1").write_text("changed\n")
    await keeper.restore(manifest)
    assert stats(root) == there
    assert (root / "small-1").stat().st_blocks == 0


async def test_holes_stay_holes_in_a_setup_layer_and_in_what_is_brought_back_over_it(
    lab: Lab, tmp_path: Path
) -> None:
    base = await started(lab)
    setup, root = await lab.workspace(base, "setup")
    (root / "hole").write_bytes(b"data")
    os.truncate(root / "hole", 2**40)
    own(root)
    written = await lab.workspaces.layer(setup)
    assert written is not None
    layer = LayerCache(tmp_path / "layers", "here").keep("k", written)
    assert (layer / "hole").stat().st_blocks < HOLE_BLOCKS

    ref, root = await lab.workspace(base, "work", layers=(layer,))
    keeper = Keeper(lab, base, ref)
    await keeper.keep()
    await keeper.restore(dict(keeper.manifest))
    assert ((root / "hole").stat().st_size, (root / "hole").stat().st_blocks < HOLE_BLOCKS) == (
        2**40,
        True,
    )


def stats(root: Path) -> dict[str, tuple[int, int]]:
    """The size and the time of each file."""
    places = [place for place in root.rglob("*") if place.is_file()]
    return {str(place): (place.stat().st_size, place.stat().st_mtime_ns) for place in places}


def test_one_plan_stores_so_much_over_all_its_lives(tmp_path: Path) -> None:
    for _ in range(3):
        space = FileBlobs(tmp_path / "space")
        stored(space, os.urandom(60_000))
    with FileBlobs(tmp_path / "space").writing() as writer:
        assert writer.room < 30_000


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

    def changing(self: blobs.Writer, source: int, **further: Any) -> str:
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


async def test_holes_stay_holes_in_the_tree_of_a_proof(lab: Lab) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base, "work")
    (root / "hole").write_bytes(b"data")
    os.truncate(root / "hole", 64 * CHUNK_BYTES + 5)
    own(root)
    changeset = await lab.workspaces.capture(base, ref, windows=())

    proof = await lab.workspaces.create(base, workspace_id="proof", tree=changeset.tree)

    made = Path(proof.root) / "hole"
    assert made.read_bytes() == (root / "hole").read_bytes()
    assert made.stat().st_blocks < 2 * HOLE_BLOCKS
