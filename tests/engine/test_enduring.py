"""Loops that live long meet one bad item: it is told once, and the loop goes on with the others."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from engine.worksite import ADD, Worksite
from janitor.passing import swept
from patchyard.contracts.journal import Journal, StoredEvent, Summaries
from patchyard.contracts.leftovers import Keeper
from patchyard.domain.errors import FencedOff, Unavailable
from patchyard.domain.retention import Family, Found
from patchyard.engine import control
from patchyard.engine.enduring import MOST_KNOWN, Enduring
from patchyard.engine.finding import list_plans
from patchyard.engine.ledger import Ledger

pytestmark = pytest.mark.anyio


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    made = Worksite.make(tmp_path, {"a.txt": "one\n"})
    yield made
    await made.clear()


HERE = "test_a_bad_item_is_told_once_until_it_changes_or_is_well_again"


def test_a_bad_item_is_told_once_until_it_changes_or_is_well_again() -> None:
    told: list[str] = []
    endures = Enduring(told.append)
    for trouble in (Unavailable("full"), Unavailable("full"), None, Unavailable("full")):
        with endures.passing("plan 1"):
            if trouble:
                raise trouble
    with endures.passing("plan 1"):
        raise Unavailable("locked")
    with endures.passing("caf\udce9") as passing:
        raise TypeError("no\x1bsuch")
    assert told == [
        *(["plan 1: full"] * 2),
        "plan 1: locked",
        f"caf\\udce9: TypeError: no\\x1bsuch (in {HERE})",
    ]
    assert isinstance(passing.error, TypeError)


def test_what_is_remembered_of_bad_items_has_a_bound() -> None:
    told: list[str] = []
    endures = Enduring(told.append)
    for number in (*range(MOST_KNOWN + 1), MOST_KNOWN):
        with endures.passing(f"plan {number}"):
            raise Unavailable("full")
    assert len(told) == MOST_KNOWN + 1
    assert len(endures._known) == 1


def test_what_ends_a_loop_ends_it_and_so_does_a_cancellation() -> None:
    endures = Enduring(through=(FencedOff,))
    with pytest.raises(FencedOff), endures.passing("plan 1"):
        raise FencedOff
    with pytest.raises(asyncio.CancelledError), endures.passing("plan 1"):
        raise asyncio.CancelledError


def test_without_a_listener_the_log_has_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "patchyard"), Enduring().passing("plan 1"):
        raise Unavailable("full")
    warned, traced = caplog.records
    assert (warned.levelname, warned.getMessage()) == ("WARNING", "plan 1: full")
    assert traced.exc_info is not None


class Words:
    """A journal that holds three words to a plan."""

    async def read(self, stream: str, *, after: int = 0) -> Sequence[StoredEvent]:
        said = ("limit", "pause", "cancel")
        words = [
            StoredEvent(stream=stream, version=n, type="Word", schema=1, at=0.0, body={"word": w})
            for n, w in enumerate(said, start=1)
        ]
        return words[after:]


async def test_a_word_that_cannot_be_taken_in_hides_no_cancel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control, "POLL_S", 0.001)
    heard: asyncio.Queue[str] = asyncio.Queue()

    def hear(word: control.Word) -> None:
        if word.word == "limit":
            raise ValueError(word.text)
        heard.put_nowait(word.word)

    ear = asyncio.ensure_future(control.listen(cast("Journal", Words()), "P", hear, after=0))
    try:
        async with asyncio.timeout(60):
            assert [await heard.get(), await heard.get()] == ["pause", "cancel"]
    finally:
        ear.cancel()
        await asyncio.wait([ear])


class Troubled(Words):
    """A journal that cannot be read at first."""

    def __init__(self) -> None:
        self.troubles: list[Exception] = [Unavailable("locked"), TypeError("a bug")]

    async def read(self, stream: str, *, after: int = 0) -> Sequence[StoredEvent]:
        if self.troubles:
            raise self.troubles.pop()
        return await super().read(stream, after=after)


async def test_a_journal_that_cannot_be_read_hides_no_cancel_of_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control, "POLL_S", 0.001)
    monkeypatch.setattr(control, "TROUBLED_POLL_S", 0.001)
    heard: asyncio.Queue[str] = asyncio.Queue()
    listening = control.listen(
        cast("Journal", Troubled()), "P", lambda word: heard.put_nowait(word.word), after=2
    )
    ear = asyncio.ensure_future(listening)
    try:
        async with asyncio.timeout(60):
            assert await heard.get() == "cancel"
    finally:
        ear.cancel()
        await asyncio.wait([ear])


class Blind:
    """A keeper that cannot look."""

    family = Family.MOUNT

    async def found(self) -> Sequence[Found]:
        raise ValueError("a name that is no name")


async def test_what_cannot_be_looked_at_keeps_the_janitor_from_nothing_else(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site.open() as (equipment, workflow):
        plan_ids = sorted([await site.made(workflow, site.asked(ADD)) for _ in range(3)])
        real = Ledger.open
        seen: set[str] = set()

        async def opened(*args: Any, **options: Any) -> Ledger:
            seen.add(args[2])
            if args[2] == plan_ids[0]:
                raise KeyError(args[2])
            return await real(*args, **options)

        keepers = [each for each in equipment.keepers if each.family != Family.MOUNT]
        blind = replace(equipment, keepers=(*keepers, cast("Keeper", Blind())))
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "open", opened)
            sweep = await swept(blind, days=0, is_dry=True)
    assert seen == set(plan_ids)
    assert ["a name that is no name" in said for said in sweep.damaged] == [True, False]
    assert [plan_ids[0] in said for said in sweep.damaged] == [False, True]


class Weightless:
    """A keeper of two things, of which one cannot be weighed."""

    family = Family.MOUNT

    async def found(self) -> Sequence[Found]:
        return [Found(family=Family.MOUNT, name=name, place=f"/{name}") for name in ("a", "b")]

    async def size(self, found: Found) -> int:
        if found.name == "a":
            raise ValueError("a size that is no number")
        return 7


async def test_what_cannot_be_weighed_is_told_and_the_rest_is_weighed(site: Worksite) -> None:
    async with site.open() as (equipment, _):
        keepers = [each for each in equipment.keepers if each.family != Family.MOUNT]
        odd = replace(equipment, keepers=(*keepers, cast("Keeper", Weightless())))
        sweep = await swept(odd, days=0, is_dry=True)
    weighed = {each.verdict.found.name: each.bytes for each in sweep.things}
    assert (weighed["a"], weighed["b"]) == (0, 7)
    assert sum("the size of /a: ValueError" in said for said in sweep.damaged) == 1


class Rows:
    """Two lines of the list, one with a time of the test's choice."""

    def __init__(self, created: object) -> None:
        texts = dict.fromkeys(("task", "repository", "phase", "state"), "x")
        self.rows = [
            (plan_id, {**texts, "plan_id": plan_id, "created": time, "updated": 2.0})
            for plan_id, time in (("A", created), ("B", 1.0))
        ]

    async def summaries(self) -> Sequence[tuple[str, dict[str, object]]]:
        return self.rows


@pytest.mark.parametrize("created", ["yesterday", None, 1e300, float("nan"), -1.0, [1]])
async def test_a_line_of_the_list_with_a_time_that_is_none_is_shown_without(
    created: object,
) -> None:
    damaged, sound = await list_plans(cast("Summaries", Rows(created)), repository=None)
    assert (damaged["plan_id"], damaged["created"], damaged["repository"]) == ("A", 0.0, "x")
    assert sound["created"] == 1.0
