"""What every actor of the registry must do: begin, think to an end, be taken up again, close."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.hands import Hands, recipe
from patchyard.actors.model import ModelActor
from patchyard.actors.recipe import ExecuteStubActor, StrategizeStubActor
from patchyard.contracts.actor import Actor, Answered, Brief, Turn
from patchyard.domain.tooling import Effect, ToolSpec
from patchyard.models.scripted import Script, ScriptedModel, ScriptedReply
from patchyard.registry import ACTORS, load

pytestmark = pytest.mark.anyio

ENTRIES = [(name, phase) for name, phases in ACTORS.items() for phase in phases]
STEPS: Sequence[Mapping[str, Any]] = (
    {"for_each": {"files": "*.txt", "steps": [{"run": "echo {file} >> log"}]}},
    {"replace": {"files": "*.txt", "pattern": "hello", "with": "good day"}},
)
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOLS = tuple(
    ToolSpec(name=name, description=name, parameters=SCHEMA, effect=effect)
    for name, effect in (("read_file", Effect.READ), ("write_file", Effect.WRITE))
)


def actor(name: str, phase: str) -> Actor:
    kind = load(ACTORS[name][phase])
    if kind is ModelActor:
        work = ScriptedReply(calls=(("read_file", {"path": "a.txt"}),))
        finish = ScriptedReply(calls=(("finish", {"summary": "done"}),))
        replies = (work, finish, finish)
        made: Actor = kind(
            model=ScriptedModel(
                name="scripted:t", script=Script(execute=replies, strategize=replies)
            )
        )
        return made
    assert kind in {ExecuteStubActor, StrategizeStubActor}
    plain: Actor = kind()
    return plain


def brief(phase: str) -> Brief:
    made = recipe(*STEPS, phase=phase)
    return Brief(**{**vars(made), "tools": TOOLS})


Life = list[tuple[Turn, Sequence[Answered]]]


async def lived(opened: Actor, phase: str, hands: Hands, *, before: Life) -> Life:
    """One session after an earlier one, to its end."""
    session = await opened.begin(brief(phase))
    answers: Sequence[Answered] = ()
    life: Life = []
    try:
        for turn, given in before:
            await session.restore(turn, answers)
            answers = given
            life.append((turn, given))
        for _ in range(20):
            turn = await session.next(answers)
            answers = [hands.answer(wanted) for wanted in turn.calls]
            life.append((turn, answers))
            if turn.is_final:
                return life
    finally:
        await session.close()
    raise AssertionError("the session did not come to an end")


@pytest.mark.parametrize(("name", "phase"), ENTRIES)
async def test_it_comes_to_an_end_with_a_summary(name: str, phase: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    life = await lived(actor(name, phase), phase, Hands(tmp_path), before=[])
    assert life[-1][0].summary
    assert not life[-1][0].failure
    assert not life[-1][0].calls
    refs = [wanted.ref for turn, _ in life for wanted in turn.calls]
    assert refs
    assert len(set(refs)) == len(refs)


@pytest.mark.parametrize(("name", "phase"), ENTRIES)
async def test_it_can_be_taken_up_after_every_step(name: str, phase: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    opened = actor(name, phase)
    whole = await lived(opened, phase, Hands(tmp_path), before=[])
    assert whole
    for cut in range(len(whole)):
        again = await lived(opened, phase, Hands(tmp_path), before=whole[:cut])
        assert again[-1][0].is_final
        assert not again[-1][0].failure


@pytest.mark.parametrize("name", sorted(ACTORS))
async def test_strategize_asks_for_no_writing_call(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    hands = Hands(tmp_path)
    await lived(actor(name, "strategize"), "strategize", hands, before=[])
    assert not {"write_file", "delete_file", "search_replace"} & set(hands.names())
    assert (tmp_path / "a.txt").read_text() == "hello\n"
