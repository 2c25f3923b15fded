"""What comes home of a replica takes no more blocks than there is room for; the rest is named."""

import os
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients import replicas as replicas_module
from patchyard.clients.home_room import HomeRoom
from patchyard.clients.path_mapping import PathMapping
from patchyard.clients.replicas import Replica
from patchyard.contracts.environment import OnOutput
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment
from patchyard.toolbox.holes import BLOCK_BYTES
from patchyard.toolbox.trees import FILE, Entry
from replicas import HERE, InProcess, at_home, kept

pytestmark = pytest.mark.anyio

KIB = 1024
MIB = 1024**2


class Asked(InProcess):
    """Remembers which operations it was asked for."""

    def __init__(self, workspace: Path, asked: list[str]) -> None:
        super().__init__(workspace)
        self._asked = asked

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
    ) -> Mapping[str, Any]:
        self._asked.append(op)
        return await super().call(call_id, op, args, on_output=on_output)


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    home, far = tmp_path / "home", tmp_path / "far"
    home.mkdir()
    far.mkdir()
    return home, far


@asynccontextmanager
async def limited(
    trees: tuple[Path, Path], disk: int | None, *, asked: list[str] | None = None, **details: Any
) -> AsyncIterator[Replica]:
    """A replica that is recovered, whose home may grow by so much."""
    home, far = trees
    handle = EnvironmentHandle(
        environment_id="01FAR",
        kind=ExecutionEnvironment.SSH,
        workspace_path=str(far),
        details={"written": str(home), "limits": {"disk_bytes": disk}, **details},
    )
    toolbox = Asked(far, [] if asked is None else asked)
    mapping = PathMapping(here=HERE, there=str(far))
    room = HomeRoom.of(handle, str(home))
    replica = Replica(toolbox, at_home(home), mapping, tenure=kept(home), room=room)
    await replica.recover(takes_home=True)
    try:
        yield replica
    finally:
        await replica.close()
        await toolbox.close()


def blocks(root: Path) -> int:
    return sum(each.lstat().st_blocks * 512 for each in root.rglob("*"))


def names(root: Path) -> list[str]:
    return sorted(str(each.relative_to(root)) for each in root.rglob("*"))


async def test_holes_stay_holes_both_ways(trees: tuple[Path, Path]) -> None:
    home, far = trees
    content = bytes(3 * MIB) + b"middle" + bytes(6 * MIB)
    with (home / "from-home").open("wb") as file:
        file.truncate(9 * MIB)
    async with limited(trees, MIB) as replica:
        assert ((far / "from-home").stat().st_size, blocks(far)) == (9 * MIB, 0)
        (far / "zeros").write_bytes(content)
        await replica.bring_home()
    assert (home / "zeros").read_bytes() == content
    assert blocks(home) == BLOCK_BYTES


async def test_a_home_that_is_renamed_is_still_the_one_that_is_held_to_its_limit(
    trees: tuple[Path, Path],
) -> None:
    home, far = trees
    async with limited(trees, MIB) as replica:
        renamed = home.rename(home.with_name("of-a-plan"))
        (far / "a").write_bytes(os.urandom(700 * KIB))
        await replica.bring_home()
        (far / "a").write_bytes(os.urandom(800 * KIB))
        (far / "b").write_bytes(os.urandom(700 * KIB))
        await replica.bring_home()
    assert names(renamed) == ["a"]
    assert replica.left_out == [("b", "no room: the limit `disk` is 1 MiB")]


async def test_an_exchange_stops_in_the_middle_of_a_file_that_has_no_room(
    trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas_module, "BATCH_BYTES", 64 * KIB)
    home, far = trees
    async with limited(trees, MIB) as replica:
        (far / "a").write_bytes(os.urandom(700 * KIB))
        (far / "b").write_bytes(os.urandom(700 * KIB))
        (far / "c").write_bytes(os.urandom(200 * KIB))
        for _ in range(2):
            await replica.bring_home()
            assert names(home) == ["a", "c"]
            assert replica.left_out == [("b", "no room: the limit `disk` is 1 MiB")]
        hit = replica.room.news()
        assert hit is not None
        assert (hit.limit, hit.allowed, hit.used) == ("disk", MIB, 1400 * KIB)
        assert replica.room.news() is None
        (far / "a").unlink()
        await replica.bring_home()
        assert (names(home), replica.left_out) == (["b", "c"], [])
    assert blocks(home) <= MIB


async def test_what_has_no_room_is_not_asked_for_again(trees: tuple[Path, Path]) -> None:
    _, far = trees
    asked: list[str] = []
    async with limited(trees, MIB, asked=asked) as replica:
        (far / "large").write_bytes(os.urandom(2 * MIB))
        for _ in range(3):
            await replica.bring_home()
            assert [path for path, _ in replica.left_out] == ["large"]
    assert asked.count("replica_get") == 1


async def test_a_file_that_replaces_another_takes_its_place(trees: tuple[Path, Path]) -> None:
    home, far = trees
    async with limited(trees, MIB) as replica:
        for _ in range(3):
            (far / "a").write_bytes(os.urandom(900 * KIB))
            await replica.bring_home()
            assert ((home / "a").read_bytes(), replica.left_out) == ((far / "a").read_bytes(), [])
    assert blocks(home) <= MIB


async def test_a_file_of_the_base_gives_nothing_back_where_only_what_is_written_counts(
    trees: tuple[Path, Path], tmp_path: Path
) -> None:
    home, far = trees
    (home / "a").write_bytes(os.urandom(2 * MIB))
    before = (home / "a").read_bytes()
    (tmp_path / "upper").mkdir()
    apart: dict[str, Any] = {"written": str(tmp_path / "upper"), "is_apart": True}
    async with limited(trees, MIB, **apart) as replica:
        (far / "a").write_bytes(os.urandom(2 * MIB))
        await replica.bring_home()
        assert [path for path, _ in replica.left_out] == ["a"]
        assert (home / "a").read_bytes() == before


async def test_folders_take_room_too_and_nothing_is_made_below_one_without(
    trees: tuple[Path, Path],
) -> None:
    home, far = trees
    async with limited(trees, MIB) as replica:
        for number in range(300):
            (far / f"{number:03}").mkdir()
        (far / "299/inner").mkdir()
        (far / "299/inner/file").write_text("x")
        await replica.bring_home()
        assert len(names(home)) == 256
        left = [path for path, _ in replica.left_out]
        assert (left[0], left[-1], len(left)) == ("256", "299", 44)
        for number in range(100):
            (far / f"{number:03}").rmdir()
        await replica.bring_home()
        assert (replica.left_out, names(home)) == ([], names(far))


@pytest.mark.parametrize("disk", [None, 16 * 1024 * MIB])
async def test_without_a_tight_limit_all_comes_home(
    trees: tuple[Path, Path], disk: int | None
) -> None:
    home, far = trees
    async with limited(trees, disk) as replica:
        (far / "a").write_bytes(os.urandom(MIB))
        await replica.bring_home()
        assert (names(home), replica.left_out) == (["a"], [])


class Told(str):
    """A path that counts how often it is compared."""

    __slots__ = ()
    __hash__ = str.__hash__
    compared = 0

    def __eq__(self, other: object) -> bool:
        Told.compared += 1
        return str.__eq__(self, other)


def test_whether_a_path_was_refused_is_found_without_a_look_at_each_of_them(
    tmp_path: Path,
) -> None:
    room, home = HomeRoom(limit=1), at_home(tmp_path)
    for number in range(1000):
        room.refuse(f"f{number}", Entry(FILE, 0o644, 0, 1, ""), home)
    assert Told("f999") in room.refused
    assert Told("f") not in room.refused
    assert Told.compared <= 3
    home.close()


async def test_what_found_no_room_is_gathered_beside_the_loop(
    trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = set()

    def has_refused(room: HomeRoom, path: str) -> bool:
        asked.add(threading.current_thread())
        return path in room.refused

    monkeypatch.setattr(HomeRoom, "has_refused", has_refused)
    async with limited(trees, MIB) as replica:
        (trees[1] / "a").write_bytes(os.urandom(2 * MIB))
        await replica.bring_home()
        assert [path for path, _ in replica.left_out] == ["a"]
    assert asked
    assert threading.main_thread() not in asked
