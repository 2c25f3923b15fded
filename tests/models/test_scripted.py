"""Scripts written by hand."""

from pathlib import Path

import pytest

from patchyard.domain.errors import ModelFailed, UsageError
from patchyard.domain.messages import Message, ModelRequest, Speaker
from patchyard.models.scripted import Script, ScriptedModel, ScriptedReply, load_script

pytestmark = pytest.mark.anyio


def asked(turn: int, purpose: str = "execute") -> ModelRequest:
    said = (Message(speaker=Speaker.USER, text="u"),)
    return ModelRequest(messages=said, turn=turn, purpose=purpose)


async def test_the_reply_follows_from_the_request_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "note: by hand\n"
        "strategize:\n- {text: plan, finish: the plan}\n"
        "execute:\n"
        "- calls:\n  - {name: read_file, arguments: {path: a}}\n  - {name: raw, arguments: '{'}\n"
        "- finish: done\n"
    )
    model = ScriptedModel(name="scripted:s", script=load_script(path))
    last = await model.complete(asked(1))
    first = await model.complete(asked(0))
    plan = await model.complete(asked(0, "strategize"))
    assert [call.name for call in first.message.calls] == ["read_file", "raw"]
    assert first.message.calls[1].arguments == "{"
    assert last.message.calls[0].arguments == '{"summary": "done"}'
    assert plan.message.text == "plan"
    with pytest.raises(ModelFailed, match="2 replies"):
        await model.complete(asked(2))


async def test_a_script_without_a_plan_finishes_planning_at_once() -> None:
    model = ScriptedModel(script=Script(execute=(ScriptedReply(text="x"),)))
    assert (await model.complete(asked(0, "strategize"))).message.calls[0].name == "finish"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a", "a script is a mapping"),
        ("execute: [", r"s.yaml:1:11"),
        ("execute: []", "at least one"),
        ("exekute: []", "unknown key 'exekute'"),
        ("execute:\n- {finsh: x}", r"s.yaml:2:4: execute\[0\].finsh: unknown .*mean 'finish'"),
        ('{"execute": [{"cals": []}]}', r"s.yaml:1:15: .*unknown key 'cals'.*mean 'calls'"),
        (
            "execute:\n- calls:\n  - {name: x, args: {}}\n",
            r"s.yaml:3:15: execute\[0\].calls\[0\].args: unknown key 'args'; did you",
        ),
        ("note: &a x\nexecute: [{say: *a}]", r"s.yaml: execute\[0\].say: unknown key 'say'"),
        ("execute: [a]", r"execute\[0\]: a reply is a mapping"),
        ("execute: [{say: x}]", "unknown key 'say'"),
        ("execute: [{calls: [x]}]", r"calls\[0\]: a call is a mapping"),
        ("execute: [{calls: [{name: x, arguments: [1]}]}]", "`arguments` is a mapping"),
        ("execute: [{calls: [{name: x}, {name: x}]}]\nexecute: []", "duplicate key"),
    ],
)
def test_mistakes_are_refused_at_their_place(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        load_script(path)


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be read: No such file or directory$"):
        load_script(tmp_path / "s.yaml")
