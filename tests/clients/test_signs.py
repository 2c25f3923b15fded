"""A far side that works for long on an exchange, and one that has fallen silent."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients import signs
from patchyard.clients.replicated import ReplicatedToolbox
from patchyard.domain.errors import EnvironmentBroken
from patchyard.engine import answers
from replicas import Pair, paired

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with paired(tmp_path) as made:
        yield made


async def recovered_by_a_slow_look(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, *, silent: bool
) -> None:
    """Recover through a toolbox that looks for twice as long as a silent one is waited for."""
    limit_s = 2.0
    monkeypatch.setattr(signs, "ASKING_S", 0.05)
    monkeypatch.setattr(answers, "SLACK_S", limit_s)
    call = pair.listened.call

    async def slow(call_id: str, op: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        if op in ("replica_look", "replica_known"):
            await asyncio.sleep(2 * limit_s)
        return await call(call_id, op, args)

    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(pair.listened, "call", slow)
    if silent:
        monkeypatch.setattr(pair.listened, "attach", never)
    toolbox = ReplicatedToolbox(pair.listened, pair.replica(), takes_home=True)
    try:
        await answers.answer_in_time(toolbox.recover(), {"timeout_s": 0.0})
    finally:
        await toolbox.close()


async def test_a_toolbox_that_looks_for_long_is_not_taken_for_a_silent_one(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    await recovered_by_a_slow_look(pair, monkeypatch, silent=False)


async def test_one_that_gives_no_sign_meanwhile_is_given_up(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EnvironmentBroken, match="gave no answer within 2 s"):
        await recovered_by_a_slow_look(pair, monkeypatch, silent=True)
