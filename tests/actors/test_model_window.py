"""A conversation fits the model's window: stated, found out, or other than it was before."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from actors.test_model_session import FINISH, answer, brief, drive, model, says
from patchyard.actors.model import ModelActor, ModelSession, Settings
from patchyard.actors.reading import CALLS_AT_ONCE
from patchyard.contracts.actor import Answered, Brief, Turn
from patchyard.domain.codec import from_json, to_json
from patchyard.domain.errors import ModelFailed
from patchyard.domain.messages import ModelFacts, ModelRequest, Speaker
from patchyard.domain.tooling import READ_OUTPUT, ToolResult
from patchyard.models.scripted import Answering, ScriptedModel, ScriptedReply
from patchyard.tools.toolset import toolset

pytestmark = pytest.mark.anyio

SMALL = 8_192
BRIEF = Brief(
    plan_id="p",
    phase="execute",
    task="Mend the greeting",
    workspace_path="/w",
    environment="process",
    tools=tuple(tool.spec for tool in toolset("/w").values()),
)
GIVES_UP = ScriptedReply(calls=(("finish", {"summary": "no", "failed": True}),))


def reads(number: int) -> ScriptedReply:
    return ScriptedReply(calls=(("read_file", {"path": f"f{number}"}),))


class WindowedModel(ScriptedModel):
    """A scripted model whose provider states a window, or refuses what is too long for it."""

    window: int | None = None
    refused_bytes: int = 10**9
    sizes: list[int]

    @classmethod
    def of(cls, answering: Answering, *, window: int | None = None) -> "WindowedModel":
        model = cls(answering=answering)
        model.window, model.sizes = window, []
        return model

    async def prepare(self) -> ModelFacts:
        return replace(self.facts, context_tokens=self.window)

    async def complete(self, request: ModelRequest, **more: Any) -> Any:
        self.sizes.append(request.size)
        if request.size > self.refused_bytes:
            raise ModelFailed("too long", details={"kind": "context_too_long"})
        return await super().complete(request, **more)


def answers_to(turn: Turn, *, size: int) -> list[Answered]:
    made = []
    for wanted in turn.calls:
        result = ToolResult(call_id=f"id-{wanted.ref}", success=True, message="ok")
        text = f"begin {wanted.ref} " + "x" * size + " end"
        made.append(Answered(ref=wanted.ref, name=wanted.name, result=result, text=text))
    return made


Life = list[tuple[Turn, Sequence[Answered]]]


async def lived(session: ModelSession, turns: int, *, size: int) -> Life:
    life: Life = []
    answers: Sequence[Answered] = ()
    for _ in range(turns):
        turn = await session.next(answers)
        life.append((turn, answers))
        answers = answers_to(turn, size=size)
    return life


async def restored(session: ModelSession, life: Life) -> ModelSession:
    for turn, given in life:
        await session.restore(from_json(Turn, to_json(turn)), given)
    return session


def reading(request: ModelRequest) -> ScriptedReply:
    return reads(request.turn)


async def test_messages_and_tools_together_fit_the_window() -> None:
    model = WindowedModel.of(reading, window=SMALL)
    session = await ModelActor(model=model).begin(BRIEF)
    await lived(session, 12, size=3_000)
    tools = sum(len(str(to_json(tool))) for tool in BRIEF.tools)
    assert max(model.sizes) + tools <= (SMALL - SMALL // 4) * 3


async def test_a_result_too_large_for_a_small_window_is_seen_in_part() -> None:
    model = WindowedModel.of(reading, window=SMALL)
    session = await ModelActor(model=model).begin(BRIEF)
    await lived(session, 2, size=60_000)
    shown = session.messages[-2].text
    assert shown.startswith("begin c0-0")
    assert shown.rstrip().endswith("end")
    assert "do not fit your context" in shown
    assert f'{READ_OUTPUT}(call_id="id-c0-0", offset=' in shown
    assert len(shown) < max(model.sizes)


async def test_the_pages_of_an_output_follow_each_other_in_a_small_window() -> None:
    page = "[characters 0 to 16000 of 90000; go on with offset=16000]\n" + "y" * 16_000

    asks = ScriptedReply(calls=((READ_OUTPUT, {"call_id": "a", "offset": 100}),))
    model = WindowedModel.of(lambda _: asks, window=SMALL)
    session = await ModelActor(model=model).begin(BRIEF)
    turn = await session.next(())
    answer = replace(answers_to(turn, size=0)[0], text=page)
    await session.next([answer])
    head, _, body = session.messages[-2].text.partition("\n")
    assert head == f"[part of the output; go on with offset={100 + len(body)}]"
    assert "offset=16000" not in head + body


async def test_a_request_that_is_too_long_is_made_shorter_and_asked_again() -> None:
    def answering(request: ModelRequest) -> ScriptedReply:
        return reads(request.turn) if request.turn < 30 else GIVES_UP

    model = WindowedModel.of(answering)
    model.refused_bytes = 30_000
    session = await ModelActor(model=model).begin(BRIEF)
    life = await lived(session, 20, size=3_000)
    assert len(life) == 20
    refused = [size for size in model.sizes if size > 30_000]
    assert 1 <= len(refused) <= 3  # what was found out counts from then on
    again = await restored(await ModelActor(model=WindowedModel.of(answering)).begin(BRIEF), life)
    assert again.messages == session.messages


async def test_a_task_that_is_too_long_by_itself_is_not_asked_for_ever() -> None:
    model = WindowedModel.of(reading)
    model.refused_bytes = 0
    session = await ModelActor(model=model).begin(replace(BRIEF, task="x" * 50_000))
    with pytest.raises(ModelFailed):
        await session.next(())
    assert len(model.sizes) == 1


@pytest.mark.parametrize("before", [None, 65_536])
async def test_a_resumed_plan_keeps_to_the_window_that_is_known_now(before: int | None) -> None:
    first = WindowedModel.of(reading, window=before)
    session = await ModelActor(model=first).begin(BRIEF)
    life = await lived(session, 9, size=6_000)
    second = WindowedModel.of(reading, window=SMALL)
    again = await restored(await ModelActor(model=second).begin(BRIEF), life)
    assert again.messages == session.messages
    await again.next(answers_to(life[-1][0], size=10))
    assert first.sizes[-1] > SMALL * 3 > second.sizes[0]
    assert "Mend the greeting" in again.messages[1].text


async def test_more_calls_than_are_made_of_one_answer_are_told_once() -> None:
    many = ScriptedReply(calls=tuple(reads(n).calls[0] for n in range(300)))
    model = WindowedModel.of(lambda request: many if request.turn == 0 else GIVES_UP)
    session = await ModelActor(model=model, settings=Settings()).begin(BRIEF)
    turn = await session.next(())
    assert len(turn.calls) == CALLS_AT_ONCE
    await session.next(answers_to(turn, size=1))
    told = [m.text for m in session.messages if "of your 300 calls" in m.text]
    assert len(told) == 1
    assert session.messages[2].speaker is Speaker.ASSISTANT
    assert len(session.messages[2].calls) == CALLS_AT_ONCE


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<think>first <tool_call>{}</tool_call></think>\nThen.", "Then."),
        ("<think>cut in the mid", "(nothing)"),
        ("", "(nothing)"),
        ("I use <think> as a word.", "I use <think> as a word."),
    ],
)
async def test_thoughts_are_not_kept_and_no_turn_is_without_content(text: str, kept: str) -> None:
    model = WindowedModel.of(lambda _: ScriptedReply(text=text))
    session = await ModelActor(model=model).begin(BRIEF)
    await session.next(())
    assert session.messages[-1].text == kept


async def test_a_shortened_text_that_is_copied_from_the_conversation_is_not_written() -> None:
    whole = "line\n" * 2_000
    copied: list[str] = []

    def answering(request: ModelRequest) -> ScriptedReply:
        if request.turn < 12:
            wrote = ("write_file", {"path": f"f{request.turn}", "content": whole})
            return ScriptedReply(calls=(wrote,))
        first = next(m.calls[0] for m in request.messages if m.calls)
        copied.append(json.loads(first.arguments)["content"])
        return ScriptedReply(calls=(("write_file", {"path": "g", "content": copied[0]}),))

    session = await ModelActor(model=WindowedModel.of(answering, window=32_768)).begin(BRIEF)
    life = await lived(session, 13, size=10)
    assert 0 < len(copied[0]) < len(whole)
    call = life[-1][0].calls[0]
    assert call.arguments is None
    assert "Write the whole text" in call.problem


async def test_old_outputs_make_room_and_the_task_stays() -> None:
    looks = [says(("read_file", {"path": f"f{i}"})) for i in range(80)]
    settings = Settings(request_bytes=40_000)
    sizes: list[int] = []

    def answering(request: ModelRequest) -> ScriptedReply:
        sizes.append(sum(len(m.text) for m in request.messages))
        return looks[request.turn] if request.turn < 80 else says(("finish", {"failed": True}))

    actor = ModelActor(model=ScriptedModel(answering=answering), settings=settings)
    session = await actor.begin(brief())
    await drive(session, reply=lambda w: answer(w, text=f"{w.ref} " * 800), limit=90)
    assert max(sizes) <= 40_000
    assert "Mend the greeting" in session.messages[1].text
    assert any('read_output(call_id="id-c' in m.text for m in session.messages)


async def test_thousands_of_steps_stay_within_the_budget() -> None:
    settings = Settings(request_bytes=30_000)
    counts: list[int] = []

    def answering(request: ModelRequest) -> ScriptedReply:
        counts.append(len(request.messages))
        if request.turn >= 1500:
            return says(("finish", {"summary": "x", "failed": True}))
        return says(("read_file", {"path": f"f{request.turn}"}))

    actor = ModelActor(model=ScriptedModel(answering=answering), settings=settings)
    session = await actor.begin(brief())
    await drive(session, reply=lambda w: answer(w, text=f"{w.ref}"), limit=1600)
    assert max(counts) < 400
    assert any("Earlier steps were left out" in m.text for m in session.messages)


async def test_a_task_larger_than_the_window_is_refused_with_the_cure() -> None:
    settings = Settings(request_bytes=5_000)
    big = replace(brief(), task="x" * 9_000)
    session = await ModelActor(model=model(FINISH), settings=settings).begin(big)
    with pytest.raises(ModelFailed, match=r"more than the \d,\d{3} that fit"):
        await session.next(())
