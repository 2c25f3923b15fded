"""Room is made by rule, and always in the same way."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.servers import check_chat
from patchyard.actors.compaction import LEFT_OUT, compact, total
from patchyard.actors.conversation import (
    PICTURE_BYTES,
    Conversation,
    Entry,
    entry,
    shortened,
    spoken,
)
from patchyard.actors.reading import ReadCall
from patchyard.actors.results import answer_entry
from patchyard.clients.http import HttpClient
from patchyard.contracts.actor import Answered
from patchyard.domain.messages import Image, Message, RequestedCall, Speaker, Thought, Thoughts
from patchyard.domain.tooling import ToolResult
from patchyard.models.chat_completions import encoded
from patchyard.models.keys import Key
from patchyard.models.ollama import OllamaModel
from patchyard.models.troubles import Provider

NOBODY = Provider(name="o", base_url="http://127.0.0.1:9", model="m", key=Key(variable=""))
TASK = (
    entry(Message(speaker=Speaker.SYSTEM, text="system"), is_pinned=True),
    entry(Message(speaker=Speaker.USER, text="task"), is_pinned=True),
)


def exchange(number: int, *, size: int, arguments: int = 10) -> list[Entry]:
    call = RequestedCall(
        id=f"c{number}", name="write_file", arguments=f'{{"content": "{"a" * arguments}"}}'
    )
    answer = Message(speaker=Speaker.TOOL, text=f"{number} " + "x" * size, answers=call.id)
    shorter = Message(speaker=Speaker.TOOL, text=f"[{number} left out]", answers=call.id)
    return [
        spoken(Message(speaker=Speaker.ASSISTANT, calls=(call,))),
        entry(answer, shorter=shorter),
    ]


def talk(sizes: list[int], *, arguments: int = 10) -> list[Entry]:
    rest = [exchange(n, size=size, arguments=arguments) for n, size in enumerate(sizes)]
    return [*TASK, *(one for pair in rest for one in pair)]


def texts(entries: list[Entry]) -> list[str]:
    return [one.message.text for one in entries]


def test_what_fits_is_left_alone() -> None:
    whole = talk([100] * 5)
    assert compact(whole, budget=total(whole)) == whole


def test_the_oldest_outputs_become_lines_first() -> None:
    made = texts(compact(talk([2_000] * 20), budget=30_000))
    assert made[3] == "[0 left out]"
    assert made[-1].startswith("19 xxx")
    assert made[:2] == ["system", "task"]


def test_long_arguments_of_old_calls_are_cut_and_stay_json() -> None:
    made = compact(talk([10] * 20, arguments=3_000), budget=50_000)
    first = made[2].message.calls[0]
    assert len(first.arguments) < 400
    assert "characters left out" in first.arguments
    assert made[2].message.calls[0].id == "c0"


def test_the_oldest_exchanges_are_left_out_when_lines_do_not_do() -> None:
    whole = talk([20] * 400)
    made = compact(whole, budget=30_000)
    assert made[2].message.text.startswith(LEFT_OUT)
    assert made[3].message.speaker is Speaker.ASSISTANT
    count = int(made[2].message.text.removeprefix(LEFT_OUT).split(" ")[0])
    assert count + (len(made) - 3) // 2 == 400
    again = compact([*made, *talk([20] * 400)[2:]], budget=30_000)
    assert int(again[2].message.text.removeprefix(LEFT_OUT).split(" ")[0]) > count


def test_recent_outputs_give_way_in_the_end() -> None:
    made = compact(talk([9_000] * 3), budget=15_000)
    assert total(made) <= 15_000
    assert made[-1].message.text.startswith("2 xxx")


def test_old_thoughts_go_first_and_the_last_stay_beside_their_calls() -> None:
    thoughts = Thoughts(maker="m", blocks=(Thought(before=0, block='"' + "t" * 1_000 + '"'),))
    whole = [
        replace(one, message=replace(one.message, thoughts=thoughts)) if one.message.calls else one
        for one in talk([10] * 12)
    ]
    whole = [spoken(one.message) if one.message.calls else one for one in whole]
    assert total(whole) > 12_000
    made = [one.message for one in compact(whole, budget=10_000) if one.message.calls]
    assert made[0].thoughts is None
    assert made[-1].thoughts == thoughts
    tight = [one.message for one in compact(whole, budget=3_500) if one.message.calls]
    assert [one.thoughts for one in tight] == [None] * (len(tight) - 1) + [thoughts]


def test_a_picture_takes_room_and_gives_way_to_a_line() -> None:
    call = ReadCall(ref="c0", name="read_file", arguments={"path": "a.png"})
    refused = ToolResult(call_id="1", success=False, message="a.png is binary", error="BINARY_FILE")
    answer = Answered(ref="c0", name="read_file", result=refused, text="failed")
    image = Image(media_type="image/png", data="aGk=")
    seen = answer_entry(call, answer, local="", limit=1_000, images=(image,))
    assert seen.size > PICTURE_BYTES
    assert seen.message.images == (image,)
    line = shortened(seen).message
    assert line.images == ()
    assert line.text == "[read_file a.png: done; an image left out, read it again to see it]"
    assert Conversation([seen]).fingerprint != Conversation([shortened(seen)]).fingerprint


@pytest.mark.parametrize("budget", [1, 500])
def test_the_task_stays_whatever_the_budget(budget: int) -> None:
    assert texts(compact(talk([900] * 9), budget=budget))[:2] == ["system", "task"]


@given(
    st.lists(st.integers(0, 4_000), max_size=30),
    st.integers(2_000, 60_000),
    st.integers(10, 2_000),
)
def test_answers_always_follow_their_calls_and_room_is_made_the_same_way(
    sizes: list[int], budget: int, arguments: int
) -> None:
    whole = talk(sizes, arguments=arguments)
    made, again = (compact(whole, budget=budget) for _ in range(2))
    assert total(made) <= max(budget, total(whole[:2]) + 1_500)
    assert Conversation(made).fingerprint == Conversation(again).fingerprint
    open_: set[str] = set()
    for one in made:
        open_ |= {call.id for call in one.message.calls}
        if one.message.answers:
            assert one.message.answers in open_


STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 3_000), st.booleans()),  # calls, size, told after
    max_size=30,
)


@given(STEPS, st.lists(st.integers(2_000, 40_000), min_size=1, max_size=4))
def test_what_is_left_is_valid_in_both_wire_formats(
    steps: list[tuple[int, int, bool]], budgets: list[int]
) -> None:
    whole: list[Entry] = [*TASK]
    for number, (count, size, is_told) in enumerate(steps):
        whole += answered(number, count, size=size)
        if is_told or not count:
            whole.append(entry(Message(speaker=Speaker.USER, text=f"word {number}")))
    for budget in budgets:  # room is made again in what is left
        whole = compact(whole, budget=budget)
        messages = [one.message for one in whole]
        check_chat({"messages": [encoded(message) for message in messages]})
        encoder = OllamaModel(NOBODY, HttpClient("http://127.0.0.1:9"))
        for message in messages:
            said = encoder._encode(message)
            if message.speaker is Speaker.TOOL:
                assert said["tool_name"] == "write_file"


def answered(number: int, count: int, *, size: int) -> list[Entry]:
    """One reply with `count` calls, and their answers in order."""
    calls = tuple(
        RequestedCall(id=f"c{number}-{n}", name="write_file", arguments=f'{{"a": "{"a" * size}"}}')
        for n in range(count)
    )
    said = spoken(Message(speaker=Speaker.ASSISTANT, text="so" * size, calls=calls))
    made = [said]
    for call in calls:
        shorter = Message(speaker=Speaker.TOOL, text="[left out]", answers=call.id)
        text = Message(speaker=Speaker.TOOL, text="x" * size, answers=call.id)
        made.append(entry(text, shorter=shorter))
    return made
