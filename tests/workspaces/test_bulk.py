"""Ignored folders with very many entries: kept where that is asked for, else taken over or lost."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from keeping import Keeper, everything, kept, own
from laboratory import Lab
from patchyard.domain.manifest import LEFT_OUT
from patchyard.workspaces import bulk, rebuilding

pytestmark = pytest.mark.anyio

INSTALLED = "node_modules"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ten entries be very many."""
    monkeypatch.setattr(bulk, "MANY", 10)
    monkeypatch.setattr("patchyard.workspaces.survey.MANY", 10)
    monkeypatch.setattr(bulk.count, "__defaults__", (10,))


def install(root: Path, folder: str = INSTALLED, *, text: str = "1") -> None:
    for number in range(12):
        place = root / folder / f"pkg{number // 4}" / f"m{number}.js"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    own(root)


async def seen(keeper: Keeper, *, has_bulk: bool = False) -> None:
    """Make a checkpoint, later than the tick in which its files changed."""
    await asyncio.sleep(0.03)  # the clock that files are dated with has to go on
    await keeper.keep(has_bulk=has_bulk)


async def test_bulk_is_not_looked_at_and_taken_over_where_nothing_changed(lab: Lab) -> None:
    keeper, root = await kept(lab)
    install(root)
    await seen(keeper)
    assert keeper.manifest[INSTALLED].held == LEFT_OUT
    assert f"{INSTALLED}/pkg0" not in keeper.manifest
    there, manifest = everything(root), dict(keeper.manifest)
    await asyncio.sleep(0.03)
    (root / "a.txt").write_text("changed\n")
    own_file(root / "a.txt")

    lost = await keeper.restore(manifest)

    assert list(lost) == []
    assert everything(root) == there
    await seen(keeper)
    assert keeper.manifest[INSTALLED].held == LEFT_OUT


def own_file(place: Path) -> None:
    if os.geteuid() == 0:
        above = place.parent.stat()
        os.chown(place, above.st_uid, above.st_gid)


async def test_bulk_that_changed_since_is_gone_and_named(lab: Lab) -> None:
    keeper, root = await kept(lab)
    install(root)
    await seen(keeper)
    manifest = dict(keeper.manifest)
    await asyncio.sleep(0.03)
    (root / INSTALLED / "pkg1/m4.js").write_text("2")

    assert list(await keeper.restore(manifest)) == [INSTALLED]
    assert not (root / INSTALLED).exists()


async def test_at_the_end_of_a_round_bulk_is_kept_whole(lab: Lab) -> None:
    keeper, root = await kept(lab)
    install(root)
    await seen(keeper)
    await seen(keeper, has_bulk=True)
    there, manifest = everything(root), dict(keeper.manifest)
    assert f"{INSTALLED}/pkg0/m0.js" in manifest
    install(root, text="another version")
    await seen(keeper)
    assert keeper.manifest[INSTALLED].held == LEFT_OUT
    assert not any(path.startswith(f"{INSTALLED}/") for path in keeper.manifest)
    shutil.rmtree(root / INSTALLED)
    await seen(keeper)
    assert INSTALLED not in keeper.manifest

    assert list(await keeper.restore(manifest)) == []
    assert everything(root) == there


async def test_a_folder_that_grows_becomes_bulk(lab: Lab) -> None:
    keeper, root = await kept(lab)
    (root / "build").mkdir(exist_ok=True)
    (root / "__pycache__").mkdir()
    (root / "__pycache__/one.pyc").write_text("1")
    own(root)
    await seen(keeper)
    assert "__pycache__/one.pyc" in keeper.manifest
    for number in range(12):
        (root / f"__pycache__/m{number}.pyc").write_text("1")
    await seen(keeper)
    await seen(keeper)
    assert keeper.manifest["__pycache__"].held == LEFT_OUT
    assert "__pycache__/one.pyc" not in keeper.manifest


async def test_what_the_base_does_not_ignore_or_has_files_in_is_kept(lab: Lab) -> None:
    keeper, root = await kept(lab)
    install(root, "source")
    install(root, "build")  # ignored, but build/kept.txt is the base's
    await seen(keeper)
    assert keeper.manifest["source"].held == ""
    assert "source/pkg2/m11.js" in keeper.manifest
    assert "build/pkg2/m11.js" in keeper.manifest


async def test_of_a_setup_layer_bulk_is_as_setup_left_it(lab: Lab, tmp_path: Path) -> None:
    base_keeper, _ = await kept(lab)
    layer = tmp_path / "layer"
    install(layer)
    (layer / ".patchyard-gone").write_bytes(b"")
    ref, root = await lab.workspace(base_keeper.base, "over", layers=(layer,))
    keeper = Keeper(lab, base_keeper.base, ref)
    await seen(keeper)
    manifest, there = dict(keeper.manifest), (root / INSTALLED / "pkg0/m0.js").read_text()
    await asyncio.sleep(0.03)
    (root / INSTALLED / "pkg0/m0.js").write_text("changed by the agent")

    await keeper.restore(manifest)

    assert (root / INSTALLED / "pkg0/m0.js").read_text() == there
    assert len(list((root / INSTALLED).glob("*/*.js"))) == 12
    await lab.workspaces.remove(ref)


class Killed(BaseException):
    """The engine died here."""


@pytest.mark.parametrize("renames", [1, 2, 3])
async def test_a_restore_that_was_killed_loses_no_bulk(
    lab: Lab, renames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, root = await kept(lab)
    install(root)
    await seen(keeper)
    there, manifest = everything(root), dict(keeper.manifest)
    await asyncio.sleep(0.03)
    (root / "new.txt").write_text("new\n")
    rename, done = Path.rename, []

    def dies(self: Path, target: Path) -> Path:
        made = rename(self, target)
        done.append(self)
        if len(done) == renames:
            raise Killed
        return made

    monkeypatch.setattr(Path, "rename", dies)
    with pytest.raises(Killed):
        await keeper.restore(manifest)
    monkeypatch.undo()
    await lab.workspaces.open(keeper.base, keeper.ref)

    assert list(await keeper.restore(manifest)) == []
    assert everything(root) == there
    left = {place.name for place in (root.parent / "own").iterdir()}
    assert left.isdisjoint({rebuilding.OLD, rebuilding.WHOLE, rebuilding.BEGUN, bulk.CARRIED})
