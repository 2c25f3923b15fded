"""Work that ended with a failure is taken up again, and a restored session knows the same."""

from collections.abc import Sequence

import pytest

from patchyard.actors.model import ModelActor, ModelSession
from patchyard.contracts.actor import Answered, Brief, Turn
from patchyard.domain.codec import from_json, to_json
from patchyard.domain.tooling import Effect, ToolResult, ToolSpec
from patchyard.models.scripted import Script, ScriptedModel, ScriptedReply

pytestmark = pytest.mark.anyio

WRITE_FILE = ToolSpec(name="write_file", description="w", parameters={}, effect=Effect.WRITE)
BRIEF = Brief(
    plan_id="p",
    phase="execute",
    task="Mend it",
    workspace_path="/w",
    environment="process",
    tools=(WRITE_FILE,),
)
SILENCE = ScriptedReply()
WRITE = ScriptedReply(calls=(("write_file", {"path": "a", "content": "x"}),))
FINISH = ScriptedReply(calls=(("finish", {"summary": "mended"}),))
GIVES_UP = ScriptedReply(calls=(("finish", {"summary": "no access", "failed": True}),))
UNKNOWN = ScriptedReply(calls=(("teleport", {}),))
ENDS = {
    "silence": [SILENCE] * 4,
    "calls that nobody knows": [UNKNOWN] * 4,
    "giving up": [GIVES_UP],
    "giving up beside a call": [
        ScriptedReply(calls=(("write_file", {"path": "a"}), *GIVES_UP.calls)),
    ],
    "failures in a row": [WRITE] * 16,
}


def answers_to(turn: Turn, *, success: bool) -> list[Answered]:
    return [
        Answered(
            ref=wanted.ref,
            name=wanted.name,
            result=ToolResult(
                call_id=f"id-{wanted.ref}",
                success=success,
                message="done" if success else "it is no use",
                error=None if success else "NO_USE",
            ),
            text="done" if success else f"failed (NO_USE): it is no use {wanted.ref}",
        )
        for wanted in turn.calls
    ]


Life = list[tuple[Turn, Sequence[Answered]]]


async def begun(replies: Sequence[ScriptedReply]) -> ModelSession:
    model = ScriptedModel(script=Script(execute=tuple(replies)))
    return await ModelActor(model=model).begin(BRIEF)


async def lived(session: ModelSession, *, success: bool, before: Sequence[Answered] = ()) -> Life:
    """Drive a session to its next end."""
    life: Life = []
    answers = before
    while not (life and life[-1][0].is_final):
        turn = await session.next(answers)
        answers = answers_to(turn, success=success)
        life.append((turn, answers))
    return life


@pytest.mark.parametrize("name", ENDS)
async def test_a_failed_end_is_told_and_gone_on_from_also_after_a_restore(name: str) -> None:
    replies = [*ENDS[name], WRITE, FINISH]
    is_no_use = name == "failures in a row"
    session = await begun(replies)
    life = await lived(session, success=not is_no_use)
    ended, answers = life[-1]
    assert ended.failure
    assert ended.can_go_on

    again = await begun(replies)
    given: Sequence[Answered] = ()
    for turn, came in life:
        await again.restore(from_json(Turn, to_json(turn)), given)
        given = came
    for one in (session, again):
        rest = await lived(one, success=True, before=answers)
        assert [turn.failure for turn, _ in rest] == [""] * len(rest)
        assert rest[-1][0].summary == "mended"
    assert again.messages == session.messages
    told = [m.text for m in session.messages if "is taken up again" in m.text]
    assert len(told) == 1
    assert ended.failure in told[0]


async def test_a_good_end_is_the_end() -> None:
    session = await begun([WRITE, FINISH])
    life = await lived(session, success=True)
    assert not life[-1][0].can_go_on
