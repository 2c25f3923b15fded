"""What is moved into place is on the disk with its name before the user is told of it.

The folders that a whole hand-over syncs, in their order, are the measure: a life that dies before
one of them leaves that folder and all after it to the next.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from handovers import begun, order
from laboratory import Lab
from patchyard.cli import plan_export
from patchyard.clients import syncing
from patchyard.clients.placer import Placer
from patchyard.domain.mcp import McpServer
from patchyard.stores.packs import Pack, sync_packs
from patchyard.stores.pins import FilePins
from patchyard.workspaces import worktree
from patchyard.workspaces.handover import GitHandOver

pytestmark = pytest.mark.anyio

HELD = ".git/patchyard"  # ours in the repository's own folder: no part of the result


class Dead(BaseException):
    """The process died here."""


@contextmanager
def synced(top: Path, *, most: int = -1) -> Iterator[list[str]]:
    """Yield what is synced below `top`, in order; the process dies in place of one more."""
    names: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        place = Path(f"/proc/self/fd/{descriptor}").readlink()
        if place.is_relative_to(top) and HELD not in str(place):
            if len(names) == most:
                raise Dead
            names.append(str(place.relative_to(top)))
        real(descriptor)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        yield names


@pytest.mark.parametrize("to", ["worktree", "merge", "branch", "patch"])
async def test_a_hand_over_that_is_finished_syncs_what_the_dead_one_did_not(
    copying: Lab, to: str
) -> None:
    base, changeset = await begun(copying)
    handing = GitHandOver(copying.trees)
    asked = order(to, name=str(copying.repo / "p.patch") if to == "patch" else "patchyard/p1")
    intent = await handing.plan(base, changeset, asked)
    with synced(copying.repo) as whole:
        receipt = await handing.carry_out(base, changeset, asked, intent)
    with synced(copying.repo) as whole_back:
        await handing.take_back(base, changeset, receipt)
    assert len(whole) >= 2
    assert whole_back

    for most in range(len(whole)):
        with synced(copying.repo, most=most) as first, pytest.raises(Dead):
            await handing.carry_out(base, changeset, asked, intent)
        with synced(copying.repo) as second:
            receipt = await handing.carry_out(base, changeset, asked, intent)
        assert {_name(each) for each in whole[most:]} <= {_name(each) for each in second}, first
        with synced(copying.repo, most=most % len(whole_back)) as first, pytest.raises(Dead):
            await handing.take_back(base, changeset, receipt)
        with synced(copying.repo) as second:
            await handing.take_back(base, changeset, receipt)
        missing = whole_back[most % len(whole_back) :]
        assert {_name(each) for each in missing} <= {_name(each) for each in second}, first


async def test_many_contents_are_on_the_disk_before_the_first_is_moved_in(
    copying: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, changeset = await begun(copying)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("worktree"))
    told: list[str] = []
    sync, take = syncing.sync_file_system, Placer.take

    def synced_all(at: Path) -> None:
        sync(at)
        told.append("synced")

    def taken(placer: Placer, place: Path, path: str) -> None:
        told.append("moved in")
        take(placer, place, path)

    monkeypatch.setattr(worktree, "MANY", 0)
    monkeypatch.setattr(worktree, "sync_file_system", synced_all)
    monkeypatch.setattr(Placer, "take", taken)
    await handing.carry_out(base, changeset, order("worktree"), intent)
    assert told[0] == "synced"
    assert set(told[1:]) == {"moved in"}


def _name(place: str) -> str:
    """Return a place without what is made anew for each try."""
    return "p.patch" if place.startswith(".") and place.endswith(".new") else place


@contextmanager
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """Yield each name that is given, and each folder or file that is synced, in order."""
    calls: list[tuple[str, str]] = []

    def telling(word: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object, **further: object) -> object:
            done = real(*given, **further)
            at = given[-1]
            place = Path(f"/proc/self/fd/{at}").readlink() if isinstance(at, int) else at
            calls.append((word, str(place)))
            return done

        return call

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", telling("synced", os.fsync))
        for name in ("rename", "replace", "link", "unlink"):
            patched.setattr(os, name, telling("named", getattr(os, name)))
        yield calls


def unsynced(calls: Sequence[tuple[str, str]]) -> set[str]:
    """Return the folders in which a name was given or taken that no sync of them followed."""
    last = {
        str(Path(place).parent): at for at, (word, place) in enumerate(calls) if word == "named"
    }
    return {
        folder for folder, named in last.items() if ("synced", folder) not in calls[named + 1 :]
    }


def test_what_a_server_listed_first_is_on_the_disk_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = FilePins(tmp_path / "pins")
    with told(monkeypatch) as calls:
        pins.keep(McpServer(name="issues", command="x"), ["one"])
    assert ("named", str(next((tmp_path / "pins").iterdir()))) in calls
    assert unsynced(calls) == set()


async def test_an_export_is_on_the_disk_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pieces() -> AsyncIterator[str]:
        yield "{}"

    with told(monkeypatch) as calls:
        await plan_export._write(tmp_path / "plan.json", pieces())
    assert ("named", str(tmp_path / "plan.json")) in calls
    assert unsynced(calls) == set()


def test_a_pack_that_is_written_anew_has_its_name_before_the_old_one_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = Pack(tmp_path / "one.unsynced")
    pack.append("ab" * 32, b"content")
    pack.close()
    with told(monkeypatch) as calls:
        sync_packs(tmp_path)
    words = [word for word, place in calls if place.startswith(str(tmp_path))]
    assert words[:4] == ["synced", "named", "synced", "named"], calls
