"""An interrupt of `plan apply` or `plan unapply` that comes when there is nothing left to stop."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from patchyard.cli import plan_hand
from patchyard.engine.handing import Handing
from patchyard.engine.ledger import Ledger

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("comes_amid_the_look", [False, True], ids=["hand-over", "look"])
async def test_a_hand_over_that_is_done_is_told_as_done(
    monkeypatch: pytest.MonkeyPatch, *, comes_amid_the_look: bool
) -> None:
    handed: list[str] = []
    interrupts = [asyncio.CancelledError()]

    async def do(_ledger: Ledger, _handing: Handing) -> str:
        handed.append("work tree")
        if not comes_amid_the_look:
            raise interrupts.pop()
        return "applied to the work tree"

    async def look(_ledger: Ledger) -> Any:
        if interrupts:
            raise interrupts.pop()
        return {"state": "applied"}

    monkeypatch.setattr(plan_hand, "plan_data", look)
    ledger = cast("Ledger", SimpleNamespace(state=SimpleNamespace(handed=handed)))
    told = await plan_hand._outcome(do, ledger, cast("Handing", None))
    assert told.text == "applied: the interrupt came after it"
    assert told.data == {"state": "applied"}


async def test_one_that_did_not_begin_is_interrupted() -> None:
    async def do(_ledger: Ledger, _handing: Handing) -> str:
        raise asyncio.CancelledError

    ledger = cast("Ledger", SimpleNamespace(state=SimpleNamespace(handed=[])))
    with pytest.raises(asyncio.CancelledError):
        await plan_hand._outcome(do, ledger, cast("Handing", None))
