"""A store of ours whose objects were lost or damaged: made anew from the user's repository."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from laboratory import Lab, started
from patchyard.clients import locks, syncing
from patchyard.clients.git import text
from patchyard.contracts.trees import whole
from patchyard.domain.changeset import Base
from patchyard.domain.errors import Unavailable
from patchyard.workspaces import mending, snapshot
from patchyard.workspaces.mending import is_whole, mend
from patchyard.workspaces.pinned import GitTrees
from patchyard.workspaces.store import Store

pytestmark = pytest.mark.anyio


def objects_in(folder: Path) -> list[Path]:
    """Every pack, and every object that lies alone."""
    return [
        place
        for place in sorted(folder.rglob("objects/*/*"))
        if place.suffix == ".pack" or len(place.parent.name) == 2
    ]


def lose(place: Path) -> None:
    place.unlink()


def spoil(place: Path) -> None:
    content = bytearray(place.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8] = bytes(8)
    place.chmod(0o600)
    place.write_bytes(content)


async def built(lab: Lab) -> Base:
    await started(lab)
    lab.write({"d/b.txt": "uncommitted\n" * 50})
    return await lab.base()


@pytest.mark.parametrize("damage", [lose, spoil])
@pytest.mark.parametrize("where", ["store.git", "history"])
async def test_a_base_that_lost_objects_comes_back_from_the_repository(
    copying: Lab, where: str, damage: Callable[[Path], None]
) -> None:
    base = await built(copying)
    folder = Path(base.store).parent
    for place in objects_in(folder / where):
        damage(place)
    shutil.rmtree(copying.trees.home / "bases", ignore_errors=True)

    checkout = await GitTrees(copying.trees.home).checkout(base)

    assert (checkout / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert (checkout / "d/b.txt").read_text() == "uncommitted\n" * 50


async def test_a_new_plan_begins_over_a_store_that_lost_its_history(copying: Lab) -> None:
    before = await built(copying)
    for place in objects_in(Path(before.store).parent / "history"):
        place.unlink()

    base = await GitTrees(copying.trees.home).snapshot(copying.repo)

    assert base.tree == before.tree


async def test_what_other_plans_had_in_a_damaged_store_is_still_read(copying: Lab) -> None:
    base = await built(copying)
    changeset = await copying.changed(base, {"a.txt": "new\n"})
    patch = await whole(copying.trees.diff(base, changeset))
    for place in objects_in(Path(base.store).parent / "history"):
        place.unlink()
    trees = GitTrees(copying.trees.home)
    shutil.rmtree(copying.trees.home / "bases", ignore_errors=True)

    await trees.checkout(base)

    assert await whole(trees.diff(base, changeset)) == patch


async def test_a_base_that_cannot_come_back_names_the_files_and_leaves_all_as_it_is(
    copying: Lab,
) -> None:
    base = await built(copying)
    folder = Path(base.store).parent
    for place in objects_in(folder / "store.git"):
        place.unlink()
    copying.write({"d/b.txt": "newer\n"})
    shutil.rmtree(copying.trees.home / "bases", ignore_errors=True)
    before = {each.name for each in folder.iterdir()}

    for _ in range(2):
        with pytest.raises(Unavailable, match="base of this plan is damaged in") as caught:
            await GitTrees(copying.trees.home).checkout(base)

    assert {each.name for each in folder.iterdir()} - {"mending"} == before
    assert "bring the checkout back" in caught.value.hint


async def test_what_other_plans_had_is_read_after_a_mending_that_was_cut_short(
    copying: Lab,
) -> None:
    base = await built(copying)
    changeset = await copying.changed(base, {"a.txt": "new\n"})
    patch = await whole(copying.trees.diff(base, changeset))
    for place in objects_in(Path(base.store).parent / "history"):
        place.unlink()
    store = copying.trees.open_store(copying.repo)

    def cut(*_: object) -> None:
        raise SystemExit

    for _ in range(2):
        with pytest.raises(SystemExit):
            mend(store, base.tree, base.commit or "", cut)

    assert await whole(GitTrees(copying.trees.home).diff(base, changeset)) == patch


@pytest.mark.parametrize("number", [0, 1])  # the history is put in its place, then the store
async def test_who_makes_what_is_missing_while_a_store_is_mended_waits_for_it(
    copying: Lab, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    base = await built(copying)
    assert base.commit is not None
    for place in objects_in(Path(base.store).parent):
        place.unlink()
    store, other = (copying.trees.open_store(copying.repo) for _ in range(2))
    waits, put, take = threading.Event(), syncing.put_in_place, locks.taken
    others: list[threading.Thread] = []

    def made() -> None:
        try:
            other.ensure()
            other.history(base.commit or "")
        finally:
            waits.set()  # or is done

    def taken(path: Path) -> int | None:
        found = take(path)
        if found is None and others and threading.current_thread() is others[0]:
            waits.set()
        return found

    def put_late(made_there: Path, place: Path) -> None:
        if place == (store.history_place(base.commit or ""), store.git_dir)[number]:
            others.append(threading.Thread(target=made))
            others[0].start()
            assert waits.wait(60)
        put(made_there, place)

    monkeypatch.setattr(mending, "put_in_place", put_late)
    monkeypatch.setattr(locks, "taken", taken)

    def retake(made_there: Store) -> Base:
        return snapshot.of_checkout(
            made_there, base.commit or "", base.branch, home=copying.trees.home
        )

    assert mend(store, base.tree, base.commit, retake)
    others[0].join()
    assert is_whole(store.git, base.tree, store.history(base.commit), base.commit)


@pytest.mark.parametrize("damage", [lose, spoil])
async def test_a_result_that_lost_files_names_them_and_the_way_back(
    copying: Lab, damage: Callable[[Path], None]
) -> None:
    base = await built(copying)
    known = set(objects_in(Path(base.store)))
    changeset = await copying.changed(base, {"a.txt": "new\n"})
    for place in set(objects_in(Path(base.store))) - known:
        damage(place)

    with pytest.raises(Unavailable, match="result of this plan") as caught:
        await whole(GitTrees(copying.trees.home).diff(base, changeset))

    assert "`agents plan rollback ID`" in caught.value.hint
    assert await copying.trees.lost(base, changeset.tree)


async def test_one_altered_content_of_a_result_is_named(copying: Lab) -> None:
    base = await built(copying)
    changeset = await copying.changed(base, {"a.txt": "new\n", "x.txt": "x\n"})
    store = copying.trees.git_of(base)
    blob = text(store.run("rev-parse", f"{changeset.tree}:x.txt"))
    for pack in (Path(base.store) / "objects/pack").glob("*.pack"):
        content = pack.read_bytes()
        pack.with_suffix(".idx").unlink()
        pack.unlink()
        store.run("unpack-objects", "-q", stdin=content)
    spoil(Path(base.store, "objects", blob[:2], blob[2:]))

    assert await copying.trees.lost(base, changeset.tree) == ["x.txt"]
