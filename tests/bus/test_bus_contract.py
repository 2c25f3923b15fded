"""What every bus does: told once to who listens now, bounded, and honest about what went by."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bus.lines import LINES, Line
from patchyard.contracts.bus import MESSAGE_BYTES, Message, Subscription
from patchyard.domain.errors import PatchyardError, Unavailable, UsageError
from patchyard.stores import sqlite_bus
from patchyard.stores.mailboxes import Mailbox
from patchyard.stores.sqlite_bus import SQLiteBus

pytestmark = pytest.mark.anyio


@pytest.fixture(params=sorted(LINES))
async def line(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Line]:
    monkeypatch.setattr(sqlite_bus, "POLL_S", 0.01)
    made = LINES[request.param](folder=tmp_path)
    yield made
    await made.close()


async def heard(listening: Subscription, count: int) -> list[Message]:
    """Return so many messages; fails when they do not come."""
    async with asyncio.timeout(120):
        return [await listening.next() for _ in range(count)]


async def test_all_who_listen_are_told_once_and_in_order(line: Line) -> None:
    told, one, two = line.end(), line.end(), line.end()
    await told.publish("a", {"n": 0})  # there is no history
    async with one.subscribe("a", "b") as first, two.subscribe() as second:
        await told.publish("a", {"n": 1}, sender="w")
        await told.publish("c", {"n": 2})
        await told.publish("b", {"n": [3, {"x": None}]})
        got = await heard(first, 2)
        assert [(each.topic, each.body, each.sender) for each in got] == [
            ("a", {"n": 1}, "w"),
            ("b", {"n": [3, {"x": None}]}, ""),
        ]
        assert got[0].at > 0
        assert [each.body["n"] for each in await heard(second, 2)] == [1, 2]
    async with one.subscribe() as later:
        await told.publish("a", {"n": 4})
        assert [each.body for each in await heard(later, 1)] == [{"n": 4}]


async def test_who_is_slow_loses_the_oldest_and_is_told_so(line: Line) -> None:
    told, one = line.end(), line.end()
    async with one.subscribe("a") as listening:
        for number in range(12):
            await told.publish("a", {"n": number})
        got = await heard(listening, 5)
        assert [(each.body["n"], each.missed) for each in got] == [
            (7, 7),
            *((number, 0) for number in range(8, 12)),
        ]
        await told.publish("a", {"n": 12})
        assert [each.missed for each in await heard(listening, 1)] == [0]


@pytest.mark.parametrize("part", ["topic", "sender", "body", "at"])
async def test_a_row_that_is_no_message_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(sqlite_bus, "POLL_S", 0.01)
    monkeypatch.setattr(sqlite_bus, "TROUBLED_POLL_S", 0.01)
    line = LINES["sqlite"](folder=tmp_path)
    told, one = line.end(), line.end()
    async with one.subscribe("a") as listening, told.subscribe("b"):
        await told.publish("a", {"n": 1})
        with sqlite3.connect(tmp_path / "patchyard.db") as connection:
            connection.execute(f"UPDATE bus SET {part} = CAST(x'ff' AS TEXT)")  # noqa: S608 - ours
        connection.close()
        await told.publish("a", {"n": 2})
        (got,) = await heard(listening, 1)
        assert (got.body, got.missed) == ({"n": 2}, 1)
    await line.close()


async def test_one_who_waits_can_be_cancelled_and_loses_nothing(line: Line) -> None:
    told, one = line.end(), line.end()
    async with one.subscribe("a") as listening:
        waiting = asyncio.create_task(listening.next())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await told.publish("a", {"n": 1})
        assert [each.body for each in await heard(listening, 1)] == [{"n": 1}]


async def test_a_message_is_small(line: Line) -> None:
    told = line.end()
    await told.publish("a", {"n": "x" * (MESSAGE_BYTES - 8)})
    with pytest.raises(UsageError, match="7,501 bytes, at most 7,500"):
        await told.publish("a", {"n": "x" * (MESSAGE_BYTES - 7)})


@pytest.mark.parametrize("text", ["{broken", "[1]", "[" * 100_000, b"\xff"])
async def test_what_is_no_message_is_missed_and_deafens_nobody(
    text: str | bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_bus, "POLL_S", 0.01)
    line = LINES["sqlite"](folder=tmp_path)
    bus = line.end()
    async with bus.subscribe() as listening:
        with sqlite3.connect(tmp_path / "patchyard.db") as other:
            other.execute(
                "INSERT INTO bus (topic, sender, at, body) VALUES ('a', '', 0, ?)", (text,)
            )
        other.close()
        await bus.publish("a", {"n": 1})
        assert [(each.body, each.missed) for each in await heard(listening, 1)] == [({"n": 1}, 1)]
    await line.close()


async def test_a_message_that_meets_a_defect_is_missed_and_deafens_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_bus, "POLL_S", 0.01)
    read = sqlite_bus._message

    def broken(row: sqlite_bus.Row) -> Message | None:
        if row[1] == b"bad":
            raise LookupError("a defect")
        return read(row)

    monkeypatch.setattr(sqlite_bus, "_message", broken)
    line = LINES["sqlite"](folder=tmp_path)
    bus = line.end()
    async with bus.subscribe() as listening:
        await bus.publish("bad", {"n": 0})
        await bus.publish("a", {"n": 1})
        assert [(each.body, each.missed) for each in await heard(listening, 1)] == [({"n": 1}, 1)]
    await line.close()


def test_what_went_by_is_told_by_the_message_after_it() -> None:
    box = Mailbox((), size=2)
    for number in range(2):
        box.put(Message(topic="a", body={"n": number}))
    box.miss(3)
    box.put(Message(topic="a", body={"n": 5}))
    assert [(each.body["n"], each.missed) for each in box._waiting] == [(1, 1), (5, 3)]


async def test_a_database_in_trouble_makes_a_listener_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_bus, "POLL_S", 0.01)
    monkeypatch.setattr(sqlite_bus, "TROUBLED_POLL_S", 0.01)
    line = LINES["sqlite"](folder=tmp_path)
    bus = line.end()
    assert isinstance(bus, SQLiteBus)
    troubles: list[PatchyardError] = [Unavailable("full")]
    newer = bus._newer

    async def troubled(last: int) -> object:
        if troubles:
            raise troubles.pop()
        return await newer(last)

    monkeypatch.setattr(bus, "_newer", troubled)
    async with bus.subscribe() as listening:
        await bus.publish("a", {"n": 1})
        assert [each.body for each in await heard(listening, 1)] == [{"n": 1}]
    assert not troubles
    await line.close()
