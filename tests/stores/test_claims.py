"""Claims on plans: one owner at a time, and one that was taken for dead cannot write."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from patchyard.clients.clock import SystemClock
from patchyard.contracts.journal import NewEvent
from patchyard.domain.errors import Conflict, FencedOff
from patchyard.domain.queue import DEAD_S, Errand
from patchyard.stores import membership as memberships
from patchyard.stores.claims import LeaseClaims
from patchyard.stores.membership import Membership
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.anyio

NOTED = NewEvent(type="Noted", schema=1, at=1.0, body={})


class Shifted(SystemClock):
    """A clock that a test sets on."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


class Office:
    """One process that claims plans, with a journal of its own on the common file."""

    def __init__(self, path: Path) -> None:
        self.clock = Shifted()
        self.journal = SQLiteJournal.open(path)
        self.membership = Membership(self.journal, path, self.clock)
        self.claims = LeaseClaims(self.membership)

    def look_away(self) -> None:
        """Give no sign of life, as a stopped process."""
        assert self.membership._heart is not None
        self.membership._heart._stopping.set()

    async def close(self) -> None:
        self.membership.rest()
        await self.journal.close()


@pytest.fixture
async def offices(tmp_path: Path) -> AsyncIterator[tuple[Office, Office]]:
    pair = Office(tmp_path / "patchyard.db"), Office(tmp_path / "patchyard.db")
    yield pair
    for office in pair:
        await office.close()


async def test_a_claim_is_for_one_at_a_time_and_ends_with_its_block(
    offices: tuple[Office, Office],
) -> None:
    one, two = (office.claims for office in offices)
    assert await two.holder("P") is None
    async with one.claim("P") as first:
        holder = await two.holder("P")
        assert holder is not None
        assert not holder.is_worker
        with pytest.raises(Conflict, match="another process"):
            async with two.claim("P"):
                pytest.fail("claimed twice")
        async with two.claim("Q"):
            pass
    assert await two.holder("P") is None
    async with two.claim("P") as second:
        assert second.lease.generation == first.lease.generation + 1


async def test_two_claims_of_one_process_end_apart(offices: tuple[Office, Office]) -> None:
    one, two = (office.claims for office in offices)
    async with one.claim("P") as hold:
        async with one.claim("Q"):
            pass
        await hold.confirm()
        assert await two.holder("P") is not None


async def test_an_owner_that_is_silent_for_too_long_loses_the_plan_and_cannot_write(
    offices: tuple[Office, Office],
) -> None:
    stopped, other = offices
    async with stopped.claims.claim("P", errand=Errand.RUN) as lost:
        journal = stopped.journal.fenced(lost.lease)
        assert await journal.append("P", 0, [NOTED]) == 1
        stopped.look_away()
        other.clock.ahead_s = stopped.clock.ahead_s = DEAD_S + 1
        assert await other.claims.holder("P") is None
        async with other.claims.claim("P", errand=Errand.RUN) as hold:
            with pytest.raises(FencedOff):
                await journal.append("P", 1, [NOTED])
            with pytest.raises(FencedOff):
                await lost.confirm()
            with pytest.raises(FencedOff):
                async with lost.sole():
                    pytest.fail("it alters what is the other's")
            async with hold.sole():
                pass
            assert await other.journal.fenced(hold.lease).append("P", 1, [NOTED]) == 2
        with pytest.raises(FencedOff):
            await journal.append("P", 2, [NOTED])
    assert len(await other.journal.read("P")) == 2


async def test_an_owner_that_was_silent_and_lost_nothing_goes_on(
    offices: tuple[Office, Office],
) -> None:
    stopped, other = offices
    async with stopped.claims.claim("P") as hold:
        stopped.look_away()
        other.clock.ahead_s = stopped.clock.ahead_s = DEAD_S + 1
        await hold.confirm()
        with pytest.raises(Conflict, match="another process"):
            async with other.claims.claim("P"):
                pytest.fail("claimed twice")


async def test_an_owner_whose_process_has_ended_loses_the_plan_at_once(
    offices: tuple[Office, Office],
) -> None:
    ended, other = offices
    seat = replace(ended.membership.member.seat, started=1)
    ended.membership._seat = seat
    async with ended.claims.claim("P") as lost, other.claims.claim("P"):
        with pytest.raises(FencedOff):
            await ended.journal.fenced(lost.lease).append("P", 0, [NOTED])


async def test_an_owner_before_the_machine_started_anew_owns_nothing(
    offices: tuple[Office, Office],
) -> None:
    before, after = offices
    before.membership._seat = replace(before.membership.member.seat, boot="another", pid=1)
    async with before.claims.claim("P"):
        assert await after.claims.holder("P") is None


async def test_a_number_of_another_namespace_says_nothing_of_a_process(
    offices: tuple[Office, Office],
) -> None:
    apart, other = offices
    apart.membership._seat = replace(
        apart.membership.member.seat, namespace="pid:[1]", pid=1 << 22, started=1
    )
    async with apart.claims.claim("P"):
        assert await other.claims.holder("P") is not None


async def test_who_was_taken_for_dead_is_told_so(
    offices: tuple[Office, Office], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memberships, "HEARTBEAT_S", 0.01)
    lost, other = offices
    told = asyncio.Event()
    async with lost.claims.claim("P") as hold:
        hold.on_loss(told.set)
        other.clock.ahead_s = 1000.0
        async with other.claims.claim("P"):
            await asyncio.wait_for(told.wait(), 60)


async def test_who_gave_a_plan_back_is_told_nothing_more_of_it(
    offices: tuple[Office, Office],
) -> None:
    office = offices[0].claims, offices[0].membership
    async with office[0].claim("P"):
        async with office[0].claim("Q") as hold:
            hold.on_loss(lambda: pytest.fail("it is over"))
        assert office[1]._heart is not None
        assert office[1]._heart._told == {}


async def test_signs_of_life_keep_an_owner_alive(
    offices: tuple[Office, Office], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memberships, "HEARTBEAT_S", 0.01)
    one, other = offices
    async with one.claims.claim("P"):
        one.clock.ahead_s = other.clock.ahead_s = DEAD_S + 1
        async with asyncio.timeout(60):
            while await other.claims.holder("P") is None:  # noqa: ASYNC110 - of another thread
                await asyncio.sleep(0.01)


async def test_a_heart_beats_on_after_a_defect(
    offices: tuple[Office, Office],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(memberships, "HEARTBEAT_S", 0.01)
    real, defects = memberships.Heart._beat, [ValueError("a bug"), ValueError("a bug")]

    def beat(heart: memberships.Heart, connection: sqlite3.Connection) -> bool:
        if defects:
            raise defects.pop()
        return real(heart, connection)

    monkeypatch.setattr(memberships.Heart, "_beat", beat)
    one, other = offices
    async with one.claims.claim("P"):
        one.clock.ahead_s = other.clock.ahead_s = DEAD_S + 1
        async with asyncio.timeout(60):
            while await other.claims.holder("P") is None:  # noqa: ASYNC110 - of another thread
                await asyncio.sleep(0.01)
    assert [each.getMessage() for each in caplog.records] == [
        "the heartbeat: ValueError: a bug (in beat)"
    ]


async def test_a_lease_that_cannot_be_given_back_ends_with_its_process(
    offices: tuple[Office, Office],
) -> None:
    one, other = offices
    async with one.claims.claim("P"):
        one.journal._connection.execute("PRAGMA query_only = 1")
    assert await other.claims.holder("P") is not None
