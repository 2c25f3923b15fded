"""The model actor's session: what it asks, what it takes, when it ends."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from patchyard.actors.model import (
    NOT_YET,
    NOTHING_CHANGED,
    SENT_BACK,
    ModelActor,
    ModelSession,
)
from patchyard.actors.repetition import END_AT
from patchyard.contracts.actor import Answered, Brief, Turn, Wanted
from patchyard.domain.errors import ModelFailed
from patchyard.domain.messages import ModelRequest, Speaker, StopReason
from patchyard.domain.tooling import Effect, ToolResult, ToolSpec
from patchyard.models.scripted import Script, ScriptedModel, ScriptedReply

pytestmark = pytest.mark.anyio

Call = tuple[str, Mapping[str, Any] | str]


def tool(name: str, effect: Effect) -> ToolSpec:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return ToolSpec(name=name, description=name, parameters=schema, effect=effect)


TOOLS = (
    tool("read_file", Effect.READ),
    tool("write_file", Effect.WRITE),
    tool("search_replace", Effect.WRITE),
    tool("execute_command", Effect.RUN),
)


def brief(phase: str = "execute", **more: Any) -> Brief:
    return Brief(
        plan_id="p",
        phase=phase,
        task="Mend the greeting",
        workspace_path="/w",
        environment="process",
        tools=TOOLS,
        **more,
    )


def says(*calls: Call, text: str = "", stop: StopReason | None = None) -> ScriptedReply:
    return ScriptedReply(text=text, calls=calls, stop=stop)


FINISH = says(("finish", {"summary": "mended"}))
WRITE = says(("write_file", {"path": "a", "content": "x"}))


def model(*replies: ScriptedReply, phase: str = "execute") -> ScriptedModel:
    script = (
        Script(execute=replies) if phase == "execute" else Script(execute=(), strategize=replies)
    )
    return ScriptedModel(name="scripted:test", script=script)


def answer(
    wanted: Wanted, *, success: bool = True, text: str = "ok", call_id: str = ""
) -> Answered:
    result = ToolResult(
        call_id=call_id or f"id-{wanted.ref}",
        success=success,
        message=text,
        error=None if success else "FILE_NOT_FOUND",
    )
    return Answered(ref=wanted.ref, name=wanted.name, result=result, text=text)


async def drive(
    session: ModelSession,
    *,
    reply: Callable[[Wanted], Answered] = answer,
    limit: int = 60,
) -> list[Turn]:
    turns: list[Turn] = []
    answers: list[Answered] = []
    for _ in range(limit):
        turn = await session.next(answers)
        turns.append(turn)
        if turn.is_final:
            return turns
        answers = [reply(wanted) for wanted in turn.calls]
    raise AssertionError("the session did not come to an end")


async def test_carries_out_calls_and_ends_with_the_summary() -> None:
    session = await ModelActor(model=model(WRITE, FINISH)).begin(brief())
    turns = await drive(session)
    assert [call.name for call in turns[0].calls] == ["write_file"]
    assert turns[-1].summary == "mended"
    assert not turns[-1].failure
    assert turns[0].usage is not None


async def test_the_request_holds_task_invariants_and_proof() -> None:
    seen: list[ModelRequest] = []

    def answering(request: ModelRequest) -> ScriptedReply:
        seen.append(request)
        return says(("finish", {"summary": "no", "failed": True}))

    actor = ModelActor(model=ScriptedModel(answering=answering))
    session = await actor.begin(
        brief(definition_of_done=("done",), invariants=("api",), validation=("pytest",))
    )
    turn = await session.next(())
    system, task = seen[0].messages
    assert system.speaker is Speaker.SYSTEM
    assert "/w" in system.text
    for word in ("Mend the greeting", "done", "api", "`pytest`"):
        assert word in task.text
    assert turn.failure == "no"


async def test_strategize_offers_no_writing_tool_and_ends_with_proposals() -> None:
    decisions = [{"question": "where?", "choice": "a.py", "confidence": 3, "alternatives": ["b"]}]
    plan = says(("finish", {"summary": "1. edit a.py", "decisions": decisions}))
    seen: list[str] = []

    def answering(request: ModelRequest) -> ScriptedReply:
        seen.extend(spec.name for spec in request.tools)
        return plan

    actor = ModelActor(model=ScriptedModel(answering=answering))
    turn = await (await actor.begin(brief("strategize"))).next(())
    assert seen == ["read_file", "execute_command", "finish"]
    assert turn.summary == "1. edit a.py"
    assert turn.proposals[0].choice == "a.py"
    assert turn.proposals[0].confidence == 1.0


async def test_a_plan_without_decisions_still_is_one() -> None:
    session = await ModelActor(
        model=model(says(("finish", {"summary": "1. x"})), phase="strategize")
    ).begin(brief("strategize"))
    turn = await session.next(())
    assert [proposal.choice for proposal in turn.proposals] == ["1. x"]


async def test_finishing_without_a_change_is_asked_back_once() -> None:
    session = await ModelActor(model=model(FINISH, FINISH)).begin(brief())
    first = await session.next(())
    assert not first.is_final
    assert (first.calls, first.sent_back) == ((), SENT_BACK[NOTHING_CHANGED])
    last = await session.next(())
    assert (last.is_final, last.sent_back) == (True, "")
    assert "changed nothing" in session.messages[-2].text


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        ("ls -la && git status", False),
        ("cat a | grep b", False),
        ("sed -i s/a/b/ a", True),
        ("echo x > a", True),
        ("git checkout a", True),
    ],
)
async def test_only_commands_that_can_change_something_count_as_work(
    command: str, *, counts: bool
) -> None:
    run = says(("execute_command", {"command": command}))
    session = await ModelActor(model=model(run, FINISH, FINISH)).begin(brief())
    assert len(await drive(session)) == 3 - counts


async def test_calls_beside_finish_come_first_and_end_the_work_when_they_succeed() -> None:
    both = says(("finish", {"summary": "both"}), ("write_file", {"path": "a"}))
    session = await ModelActor(model=model(both)).begin(brief())
    turns = await drive(session)
    assert [call.name for call in turns[0].calls] == ["write_file"]
    assert turns[1].summary == "both"
    assert turns[1].usage is None


async def test_a_failed_call_beside_finish_keeps_the_work_open() -> None:
    both = says(("write_file", {"path": "a"}), ("finish", {"summary": "both"}))
    session = await ModelActor(model=model(both, WRITE, FINISH)).begin(brief())
    first = await session.next(())
    second = await session.next([answer(first.calls[0], success=False)])
    assert (second.is_final, second.sent_back) == (False, SENT_BACK[NOT_YET])
    assert "not finished" in session.messages[-2].text


async def test_two_calls_are_carried_out_in_order() -> None:
    two = says(("write_file", {"path": "a"}), ("read_file", {"path": "b"}))
    session = await ModelActor(model=model(two, FINISH)).begin(brief())
    turns = await drive(session)
    assert [call.name for call in turns[0].calls] == ["write_file", "read_file"]
    assert len({call.ref for call in turns[0].calls}) == 2


async def test_an_unknown_tool_is_answered_with_the_nearest_name() -> None:
    session = await ModelActor(model=model(says(("write_fil", {"path": "a"})))).begin(brief())
    (call,) = (await session.next(())).calls
    assert "write_file" in call.problem
    assert call.arguments == {"path": "a"}  # to be shown; nothing makes the call
    assert session.messages[-1].calls[0].arguments == "{}"


async def test_mended_arguments_are_carried_out_and_the_model_is_told() -> None:
    session = await ModelActor(
        model=model(says(("write_file", "{'path': 'a', 'content': 'x'}")), FINISH)
    ).begin(brief())
    turns = await drive(session)
    assert turns[0].calls[0].arguments == {"path": "a", "content": "x"}
    assert any("Python literal" in message.text for message in session.messages)


async def test_calls_that_cannot_be_read_go_back_three_times() -> None:
    broken = says(("write_file", '{"path": "a", "con'))
    session = await ModelActor(model=model(*[broken] * 9)).begin(brief())
    turns = await drive(session)
    assert len(turns) == 4
    assert "ends in the middle" in turns[-1].failure


async def test_text_without_a_call_is_nudged_three_times_and_then_ends() -> None:
    sorry = says(text="I am sorry, I cannot do that.")
    session = await ModelActor(model=model(*[sorry] * 9)).begin(brief())
    turns = await drive(session)
    assert len(turns) == 4
    assert "I am sorry" in turns[-1].failure


async def test_text_after_real_work_is_taken_as_the_summary() -> None:
    done = says(text="All done: the greeting is mended.")
    session = await ModelActor(model=model(WRITE, *[done] * 4)).begin(brief())
    turns = await drive(session)
    assert turns[-1].summary.startswith("All done")
    assert not turns[-1].failure


async def test_text_is_taken_as_the_plan_in_the_end() -> None:
    plan = says(text="1. Edit a.py")
    session = await ModelActor(model=model(*[plan] * 4, phase="strategize")).begin(
        brief("strategize")
    )
    assert (await drive(session))[-1].proposals[0].choice == "1. Edit a.py"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (says(), "answered with nothing"),
        (says(text="x" * 900_000, stop=StopReason.LENGTH), "cut for their length"),
    ],
)
async def test_empty_and_endless_answers_end_with_the_reason(
    reply: ScriptedReply, words: str
) -> None:
    session = await ModelActor(model=model(*[reply] * 4)).begin(brief())
    turns = await drive(session)
    assert words in turns[-1].failure
    assert sum(len(message.text) for message in session.messages) < 200_000


async def test_a_filtered_answer_ends_the_work() -> None:
    session = await ModelActor(model=model(says(stop=StopReason.FILTERED))).begin(brief())
    assert "content filter" in (await session.next(())).failure


@pytest.mark.parametrize("cycle", [1, 2, 3])
async def test_going_round_in_circles_is_warned_about_and_ended(cycle: int) -> None:
    replies = [says(("read_file", {"path": f"f{i % cycle}"})) for i in range(60)]
    session = await ModelActor(model=model(*replies)).begin(brief())
    turns = await drive(session)
    assert "repeated itself" in turns[-1].failure
    assert len(turns) == END_AT * cycle + 1
    warnings = [m for m in session.messages if "leads nowhere" in m.text]
    assert len(warnings) == 1


async def test_calls_that_all_fail_are_warned_about_and_ended() -> None:
    replies = [says(("read_file", {"path": f"f{i}"})) for i in range(60)]
    session = await ModelActor(model=model(*replies)).begin(brief())
    turns = await drive(session, reply=lambda w: answer(w, success=False, text=f"no {w.ref}"))
    assert "16 calls in a row failed" in turns[-1].failure
    assert len([m for m in session.messages if "leads nowhere" in m.text]) == 1


async def test_the_same_call_with_new_results_is_no_circle() -> None:
    look = says(("read_file", {"path": "f"}))
    count = iter(range(1000))
    session = await ModelActor(model=model(*[look] * 12, WRITE, FINISH)).begin(brief())
    turns = await drive(session, reply=lambda w: answer(w, text=f"state {next(count)}"))
    assert turns[-1].summary == "mended"


async def test_a_word_of_the_engine_reopens_the_work() -> None:
    session = await ModelActor(model=model(WRITE, FINISH, WRITE, FINISH)).begin(brief())
    turns = await drive(session)
    turn = await session.next((), note="The proof failed: test_a")
    assert turn.calls[0].name == "write_file"
    assert session.messages[-2].text == "The proof failed: test_a"
    assert turns[-1].is_final


async def test_a_call_written_into_the_text_is_made() -> None:
    text = (
        'I will write.\n<tool_call>{"name": "write_file", "arguments": {"path": "a"}}</tool_call>'
    )
    session = await ModelActor(model=model(says(text=text), FINISH)).begin(brief())
    turns = await drive(session)
    assert turns[0].calls[0].arguments == {"path": "a"}


async def test_restoring_gives_the_same_conversation_without_asking() -> None:
    replies = (
        says(("read_file", {"path": "a"}), text="look"),
        says(text="hm"),
        says(("write_file", "{'path': 'b'}"), ("nothing", {})),
        says(("write_file", {"path": "c"}), ("finish", {"summary": "s"})),
        WRITE,
        FINISH,
    )
    lived = await ModelActor(model=model(*replies)).begin(brief())
    steps: list[tuple[Turn, list[Answered], str]] = []
    answers: list[Answered] = []
    for index in range(5):
        note = "careful" if index == 3 else ""
        turn = await lived.next(answers, note=note)
        steps.append((turn, answers, note))
        answers = [answer(w, success=w.name != "nothing", text="r" * 90) for w in turn.calls]
    assert steps[-1][0].is_final

    silent = ScriptedModel(name="scripted:test", answering=_never)
    again = await ModelActor(model=silent).begin(brief())
    for turn, given, note in steps:
        await again.restore(turn, given, note=note)
    assert again.messages == lived.messages
    assert silent.asked == 0


async def test_asking_again_after_a_failure_says_nothing_twice() -> None:
    fails = iter([True, False])

    def answering(request: ModelRequest) -> ScriptedReply:
        if request.turn == 1 and next(fails):
            raise ModelFailed("busy", retryable=True)
        return WRITE if request.turn == 0 else FINISH

    session = await ModelActor(model=ScriptedModel(answering=answering)).begin(brief())
    first = await session.next(())
    answers = [answer(first.calls[0])]
    with pytest.raises(ModelFailed):
        await session.next(answers, note="hurry")
    before = len(session.messages)
    turn = await session.next(answers, note="hurry")
    assert turn.is_final
    assert len(session.messages) == before + 1


def _never(_request: ModelRequest) -> ScriptedReply:
    raise AssertionError("the model was asked")
