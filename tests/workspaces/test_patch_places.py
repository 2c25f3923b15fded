"""Where a patch file goes when another user changes the names around it, and what unapply says."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from handovers import begun, order
from laboratory import Lab
from patchyard.clients.placer import Placer
from patchyard.contracts.handover import Order, Receipt
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import Conflict
from patchyard.workspaces.handover import GitHandOver

pytestmark = pytest.mark.anyio


def swapped(out: Path, private: Path) -> Path:
    """Put a link to `private` in the place of `out`; returns where that is by now."""
    moved = out.with_name("moved")
    out.rename(moved)
    out.symlink_to(private)
    return moved


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A folder that another user may swap, and one of ours alone."""
    out, private = tmp_path / "above" / "out", tmp_path / "private"
    out.mkdir(parents=True)
    private.mkdir(mode=0o700)
    return out, private


async def planned(lab: Lab, place: Path) -> tuple[GitHandOver, Base, ChangeSet, Receipt]:
    base, changeset = await begun(lab)
    handing = GitHandOver(lab.trees)
    return handing, base, changeset, await handing.plan(base, changeset, to(place))


def to(place: Path) -> Order:
    return order("patch", name=str(place))


async def test_a_patch_is_not_written_where_a_link_in_place_of_its_folder_leads(
    copying: Lab, folders: tuple[Path, Path]
) -> None:
    out, private = folders
    place = out / "p.patch"
    handing, base, changeset, intent = await planned(copying, place)
    swapped(out, private)

    with pytest.raises(Conflict, match=f"{out} was replaced, nothing was changed"):
        await handing.carry_out(base, changeset, to(place), intent)
    with pytest.raises(Conflict, match=f"{out} was replaced, nothing was changed"):
        await handing.plan(base, changeset, to(place))

    assert not list(private.iterdir())


async def test_nor_by_a_link_in_place_of_a_folder_above(
    copying: Lab, folders: tuple[Path, Path]
) -> None:
    out, private = folders
    place = out / "p.patch"
    handing, base, changeset, intent = await planned(copying, place)
    (private / "out").mkdir()
    swapped(out.parent, private)

    with pytest.raises(Conflict, match="was replaced"):
        await handing.carry_out(base, changeset, to(place), intent)

    assert not list((private / "out").iterdir())


async def test_a_patch_stays_in_the_folder_that_was_opened_while_it_is_swapped(
    copying: Lab, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, private = folders
    place = out / "p.patch"
    handing, base, changeset, intent = await planned(copying, place)
    put, moved = Placer.put, []

    def late(placer: Placer, path: str, mode: str, chunks: Iterable[bytes]) -> None:
        moved.append(swapped(out, private))
        put(placer, path, mode, chunks)

    monkeypatch.setattr(Placer, "put", late)
    receipt = await handing.carry_out(base, changeset, to(place), intent)

    assert not list(private.iterdir())
    assert [each.name for each in moved[0].iterdir()] == ["p.patch"]
    assert not await handing.is_there(base, receipt)
    with pytest.raises(Conflict, match="was replaced"):
        await handing.take_back(base, changeset, receipt)
    out.unlink()
    moved[0].rename(out)
    assert await handing.take_back(base, changeset, receipt) == (str(place),)
    assert not list(out.iterdir())


async def test_a_file_behind_a_link_is_not_deleted_when_a_patch_is_taken_back(
    copying: Lab, folders: tuple[Path, Path]
) -> None:
    out, private = folders
    place = out / "p.patch"
    handing, base, changeset, intent = await planned(copying, place)
    receipt = await handing.carry_out(base, changeset, to(place), intent)
    (private / "p.patch").write_bytes(place.read_bytes())
    swapped(out, private)

    with pytest.raises(Conflict, match="was replaced"):
        await handing.take_back(base, changeset, receipt)

    assert (private / "p.patch").exists()


async def test_a_patch_that_is_not_there_any_more_does_not_count_as_taken_back(
    copying: Lab, folders: tuple[Path, Path]
) -> None:
    out, _ = folders
    place = out / "p.patch"
    handing, base, changeset, intent = await planned(copying, place)
    receipt = await handing.carry_out(base, changeset, to(place), intent)
    place.rename(out / "elsewhere")
    assert await handing.take_back(base, changeset, receipt) == ()
    assert await handing.take_back(base, changeset, intent) == (str(place),)
    out.rename(out.with_name("moved"))
    assert await handing.take_back(base, changeset, receipt) == ()
