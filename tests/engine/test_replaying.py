"""The actor of a replay gives the turns of a journal, with the ids that calls have now."""

from dataclasses import replace

import pytest

from engine.worksite import ADD, Worksite
from patchyard.contracts.actor import Answered, Brief, Casting, Turn, Wanted
from patchyard.domain.errors import GuardRefused, JournalBroken
from patchyard.domain.lineage import REPLAYS
from patchyard.domain.plan import Phase, State
from patchyard.domain.tooling import ToolResult
from patchyard.engine.commenting import Remark, comment
from patchyard.engine.forking import fork
from patchyard.engine.replaying import Replay, ReplayActor, replayer
from patchyard.intake import spec_of

pytestmark = pytest.mark.anyio

BRIEF = Brief(
    plan_id="P", phase="execute", task="t", workspace_path="/w", environment="process", tools=()
)


def wanted(ref: str, **arguments: object) -> Turn:
    return Turn(calls=(Wanted(ref=ref, name="tool", arguments=arguments),))


def answered(ref: str, call_id: str) -> Answered:
    result = ToolResult(call_id=call_id, success=True, message="")
    return Answered(ref=ref, name="tool", result=result, text="")


REPLAYED = (
    Replay(turn=wanted("a", command="sleep"), call_ids={"a": "OLD"}),
    Replay(turn=wanted("b", job_id="OLD", among=["OLD", {"deep": "OLD"}, 3]), call_ids={"b": "B"}),
    Replay(turn=Turn(is_final=True)),
)


async def test_the_ids_of_earlier_calls_are_those_of_this_life() -> None:
    session = await ReplayActor(REPLAYED).begin(BRIEF)
    await session.next([])
    turn = await session.next([answered("a", "NEW")])
    (call,) = turn.calls
    assert call.arguments == {"job_id": "NEW", "among": ["NEW", {"deep": "NEW"}, 3]}
    assert (await session.next([answered("b", "B2")])).is_final


async def test_a_replay_that_is_taken_up_again_goes_on_with_the_next_turn() -> None:
    session = await ReplayActor(REPLAYED).begin(BRIEF)
    await session.restore(REPLAYED[0].turn, [])
    turn = await session.next([answered("a", "NEW")])
    assert turn.calls[0].ref == "b"
    await session.close()


async def test_who_replays_nothing_is_no_actor(site: Worksite) -> None:
    spec = replace(spec_of(site.asked(ADD), site.environ), agent=REPLAYS)
    async with site.open() as (equipment, _):
        casting = Casting(plan_id="P", spec=spec, phase="execute")
        with pytest.raises(JournalBroken, match="replays nothing"):
            await replayer(equipment.store.journal, casting)


async def test_a_plan_with_a_strategy_alone_can_be_forked_and_not_commented(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        for at in ("", "0"):
            with pytest.raises(GuardRefused, match="no strategy yet"):
                await fork(equipment, plan_id, at=at)
        await workflow.strategize(plan_id)
        with pytest.raises(GuardRefused, match="no change set yet"):
            await comment(equipment, plan_id, [Remark(path="a.txt", line=1, text="why?")])
        child = await fork(equipment, plan_id)
        state = (await site.ledger(equipment, child)).state
    assert (state.phase, state.state) == (Phase.STRATEGIZE, State.COMPLETE)
    assert state.strategy
    assert state.known.lineage is not None
    assert state.known.lineage.plan_id == plan_id
