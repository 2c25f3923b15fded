"""An interrupt of `plan apply`, `plan unapply` or `run` that comes too late to stop anything."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from patchyard.cli import plan_hand, working
from patchyard.cli.outcome import Interrupted
from patchyard.domain.errors import StateRefusal
from patchyard.domain.plan import State
from patchyard.engine.answers import whole
from patchyard.engine.equipment import Equipment
from patchyard.engine.handing import Handing
from patchyard.engine.ledger import Ledger

pytestmark = pytest.mark.anyio

DATA = {"state": "applied"}


def ledger_of(*handed: str, intended: str | None = None) -> Any:
    return SimpleNamespace(state=SimpleNamespace(handed=handed, intended=intended))


async def told(do: Any, ledger: Any, *, is_back: bool = False) -> Any:
    handing = cast("Handing", None)
    return await plan_hand._outcome(do, cast("Ledger", ledger), handing, is_back=is_back)


async def looked_at(_ledger: Ledger) -> Any:
    return DATA


@pytest.mark.parametrize("comes_amid_the_look", [False, True], ids=["hand-over", "look"])
async def test_a_hand_over_that_is_done_is_told_as_done(
    monkeypatch: pytest.MonkeyPatch, *, comes_amid_the_look: bool
) -> None:
    ledger = ledger_of()
    interrupts = [asyncio.CancelledError()]

    async def do(_ledger: Ledger, _handing: Handing) -> str:
        ledger.state = ledger_of("work tree").state
        if not comes_amid_the_look:
            raise interrupts.pop()
        return "applied to the work tree"

    async def look(_ledger: Ledger) -> Any:
        if interrupts:
            raise interrupts.pop()
        return DATA

    monkeypatch.setattr(plan_hand, "plan_data", look)
    outcome = await told(do, ledger)
    assert outcome.text == "applied: the interrupt came after it"
    assert outcome.data == DATA


@pytest.mark.parametrize(
    "before", [ledger_of("work tree"), ledger_of(intended="work tree")], ids=["whole", "cut short"]
)
async def test_a_hand_over_that_is_taken_back_is_told_so(
    monkeypatch: pytest.MonkeyPatch, before: Any
) -> None:
    async def do(ledger: Any, _handing: Handing) -> str:
        ledger.state = ledger_of().state
        raise asyncio.CancelledError

    monkeypatch.setattr(plan_hand, "plan_data", looked_at)
    outcome = await told(do, SimpleNamespace(state=before.state), is_back=True)
    assert outcome.text == "taken back: the interrupt came after it"
    assert outcome.data == DATA


async def test_newer_work_that_was_left_is_named_though_an_interrupt_came() -> None:
    is_begun, goes_on = asyncio.Event(), asyncio.Event()

    async def take_back(ledger: Any) -> str:
        is_begun.set()
        await goes_on.wait()
        ledger.state = ledger_of().state
        raise StateRefusal("taken back, but for newer work")

    async def do(ledger: Any, _handing: Handing) -> str:
        return await whole(take_back(ledger))

    command = asyncio.ensure_future(told(do, ledger_of(intended="work tree"), is_back=True))
    begun = asyncio.ensure_future(is_begun.wait())
    await asyncio.wait({begun, command}, return_when=asyncio.FIRST_COMPLETED)
    command.cancel()
    goes_on.set()
    with pytest.raises(StateRefusal, match="but for newer work"):
        await command


@pytest.mark.parametrize("is_back", [False, True], ids=["apply", "unapply"])
async def test_one_that_did_not_begin_is_interrupted(*, is_back: bool) -> None:
    async def do(_ledger: Ledger, _handing: Handing) -> str:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await told(do, ledger_of("work tree"), is_back=is_back)


async def test_an_apply_cut_short_that_fails_now_is_interrupted() -> None:
    """Its intent goes then, and nothing was changed."""

    async def do(ledger: Any, _handing: Handing) -> str:
        ledger.state = ledger_of().state
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await told(do, ledger_of(intended="work tree"))


@pytest.mark.parametrize(
    ("state", "intended", "is_told"),
    [
        (State.APPLIED, None, False),
        (State.APPLIED, "branch", True),  # a second hand-over, which was cut short
        (State.COMPLETE, None, True),
    ],
)
async def test_a_run_that_has_applied_its_result_is_not_told_as_interrupted(
    monkeypatch: pytest.MonkeyPatch, state: State, intended: str | None, *, is_told: bool
) -> None:
    known = SimpleNamespace(requires_changes=False)

    async def opened(*_: Any) -> Any:
        return SimpleNamespace(state=SimpleNamespace(state=state, intended=intended, known=known))

    async def look(_ledger: Ledger) -> Any:
        return {"review": None, "error_message": None, "changed": {}}

    async def work() -> Any:
        raise asyncio.CancelledError

    monkeypatch.setattr(working, "Ledger", SimpleNamespace(open=opened))
    monkeypatch.setattr(working, "plan_data", look)
    monkeypatch.setattr(working, "plan_screen", lambda _: "the screen")
    equipment = cast("Equipment", SimpleNamespace(store=None, clock=None))
    outcome = await working.carried(equipment, "01JPLAN", work())
    assert isinstance(outcome.error, Interrupted) == is_told
