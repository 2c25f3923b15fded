"""Recordings: what is written, and how strictly it is played back."""

import json
import os
import stat
from pathlib import Path

import pytest

from patchyard.domain.errors import ModelFailed, ModelUnavailable, UsageError
from patchyard.domain.messages import Message, ModelRequest, RequestedCall, Speaker
from patchyard.domain.tooling import Effect, ToolSpec
from patchyard.models.recorded import RecordedModel, RecordingModel
from patchyard.models.scripted import ScriptedModel, ScriptedReply
from patchyard.models.transcript import Placeholders

pytestmark = pytest.mark.anyio

TOOL = ToolSpec(name="t", description="d", parameters={"type": "object"}, effect=Effect.READ)
ULID = "01HZX4T9M0ABCDEFGHJKMNPQRS"
OTHER = "01JAAAAAAAAAAAAAAAAAAAAAAA"
SECRET = "correct-horse-battery"


def here() -> Placeholders:
    return Placeholders(workspace="/w/one")


def talk(
    turns: int, *, workspace: str = "/w/one", call: str = ULID, output: str = "ran in 0.12s"
) -> ModelRequest:
    messages = [Message(speaker=Speaker.USER, text=f"work in {workspace}")]
    for turn in range(turns):
        asked = RequestedCall(id=f"c{turn}", name="t", arguments="{}")
        messages.append(Message(speaker=Speaker.ASSISTANT, calls=(asked,)))
        text = f"{output} in {workspace}; read_output(call_id={call!r})"
        messages.append(Message(speaker=Speaker.TOOL, text=text, answers=f"c{turn}"))
    return ModelRequest(messages=tuple(messages), tools=(TOOL,), purpose="execute", turn=turns)


def answering(request: ModelRequest) -> ScriptedReply:
    call = ("t", {"call_id": ULID, "path": "/w/one/a"})
    return ScriptedReply(text=f"turn {request.turn}", calls=(call,) if request.turn else ())


async def record(path: Path, *, turns: int = 3) -> Path:
    model = RecordingModel(
        ScriptedModel(answering=answering),
        path,
        places=Placeholders(workspace="/w/one", secrets=(SECRET,)),
        environment="process",
        plan=ULID,
    )
    await model.prepare()
    for turn in range(turns):
        await model.complete(talk(turn))
    await model.close()
    return path


async def test_it_is_played_back_in_another_place_with_other_ids(tmp_path: Path) -> None:
    model = RecordedModel(
        await record(tmp_path / "r"), places=Placeholders(workspace="/somewhere/else")
    )
    assert model.head.model == "scripted:inline"
    assert model.head.environment == "process"
    replies = [
        await model.complete(
            talk(turn, workspace="/somewhere/else", call=OTHER, output="ran in 9s")
        )
        for turn in range(3)
    ]
    assert [reply.message.text for reply in replies] == ["turn 0", "turn 1", "turn 2"]
    arguments = json.loads(replies[2].message.calls[0].arguments)
    assert arguments == {"call_id": OTHER, "path": "/somewhere/else/a"}


async def test_another_content_is_refused_with_the_first_difference(tmp_path: Path) -> None:
    model = RecordedModel(await record(tmp_path / "r"), places=here())
    await model.complete(talk(0))
    with pytest.raises(ModelFailed, match=r"message 3 \(tool\).*ran in.*failed in") as caught:
        await model.complete(talk(1, output="failed in 0.12s"))
    assert not caught.value.retryable
    assert caught.value.details["step"] == 2


async def test_another_order_is_refused(tmp_path: Path) -> None:
    model = RecordedModel(await record(tmp_path / "r"), places=here())
    await model.complete(talk(0))
    with pytest.raises(ModelFailed, match="3 messages were recorded and 5 are asked"):
        await model.complete(talk(2))


async def test_other_tools_are_refused(tmp_path: Path) -> None:
    model = RecordedModel(await record(tmp_path / "r"), places=here())
    with pytest.raises(ModelFailed, match="`tools`"):
        await model.complete(ModelRequest(messages=talk(0).messages, purpose="execute"))


async def test_one_request_more_than_was_recorded_is_refused(tmp_path: Path) -> None:
    model = RecordedModel(await record(tmp_path / "r", turns=1), places=here())
    await model.complete(talk(0))
    with pytest.raises(ModelFailed, match="holds 1 requests"):
        await model.complete(talk(1))


async def test_playing_back_goes_on_where_a_crash_left_it(tmp_path: Path) -> None:
    model = RecordedModel(await record(tmp_path / "r"), places=here())
    assert (await model.complete(talk(2))).message.text == "turn 2"


async def test_only_the_owner_can_read_it_and_secrets_are_hidden(tmp_path: Path) -> None:
    path = tmp_path / "r"
    model = RecordingModel(
        ScriptedModel(answering=lambda _: ScriptedReply(text=f"the key is {SECRET}")),
        path,
        places=Placeholders(workspace="/w", secrets=(SECRET,)),
        environment="process",
        plan=ULID,
    )
    await model.prepare()
    shaped = "sk-" + "a1B2" * 8
    asked = Message(speaker=Speaker.USER, text=f"use {SECRET} and {shaped}, Bearer abcdef123456")
    await model.complete(ModelRequest(messages=(asked,)))
    await model.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    for hidden in (SECRET, shaped, "abcdef123456"):
        assert hidden not in text
    assert text.count("[hidden]") == 4


async def test_a_file_holds_each_message_once(tmp_path: Path) -> None:
    lines = (await record(tmp_path / "r")).read_text().splitlines()
    steps = [json.loads(line) for line in lines[1:]]
    assert [step["request"]["kept"] for step in steps] == [0, 1, 3]
    assert ["tools" in step["request"] for step in steps] == [True, False, False]


async def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = await record(tmp_path / "r")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        resumed(path, plan=OTHER)
    assert path.read_bytes() == before


def resumed(
    path: Path,
    *,
    name: str = "scripted:inline",
    plan: str = ULID,
    chain: tuple[str, ...] = (),
) -> RecordingModel:
    model = ScriptedModel(name=name, answering=answering)
    return RecordingModel(model, path, places=here(), environment="process", plan=plan, chain=chain)


async def test_a_recording_goes_on_after_a_crash(tmp_path: Path) -> None:
    path = await record(tmp_path / "r", turns=2)
    model = resumed(path)
    await model.prepare()
    await model.complete(talk(2))
    await model.close()
    played = RecordedModel(path, places=here())
    for turn in range(3):
        assert (await played.complete(talk(turn))).message.text == f"turn {turn}"


async def test_what_was_asked_again_counts_once(tmp_path: Path) -> None:
    path = await record(tmp_path / "r", turns=2)
    model = resumed(path)
    await model.prepare()
    await model.complete(talk(1))
    await model.complete(talk(2))
    await model.close()
    assert len(path.read_text().splitlines()) == 5
    played = RecordedModel(path, places=here())
    for turn in range(3):
        assert (await played.complete(talk(turn))).message.text == f"turn {turn}"


async def test_going_on_drops_half_a_line_and_refuses_another_model(tmp_path: Path) -> None:
    path = await record(tmp_path / "r", turns=2)
    with path.open("ab") as file:
        file.write(b'{"hash": "half')
    other = resumed(path, name="scripted:other")
    with pytest.raises(UsageError, match="a recording of scripted:inline"):
        await other.prepare()
    await other.close()
    # the first of a chain is away by now, and the next one goes on
    model = resumed(path, name="scripted:other", chain=("scripted:inline", "scripted:other"))
    await model.prepare()
    await model.complete(talk(2))
    await model.close()
    assert len(path.read_text().splitlines()) == 4


@pytest.mark.parametrize("content", [b"", b'{"patchyard'])
async def test_only_an_empty_file_is_begun(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "new"
    path.write_bytes(content)
    if content:
        with pytest.raises(UsageError, match="exists already"):
            resumed(path)
        assert path.read_bytes() == content
        return
    model = resumed(path)
    await model.prepare()
    await model.complete(talk(0))
    await model.close()
    assert RecordedModel(path).head.model == "scripted:inline"


async def test_the_trees_of_unconfined_plans_count_as_the_workspace(tmp_path: Path) -> None:
    tree, other = f"/state/plans/{ULID}/root", f"/there/{OTHER}/root"
    recording = RecordingModel(
        ScriptedModel(
            answering=lambda _: ScriptedReply(calls=(("t", {"path": f"{tree}/a"}),)),
        ),
        tmp_path / "r",
        places=Placeholders(workspace="/w/one", plans="/state/plans"),
        environment="host",
        plan=ULID,
    )
    await recording.prepare()
    await recording.complete(talk(1, workspace=tree))
    await recording.close()
    for places, workspace in (
        (Placeholders(workspace="/w/two", plans="/there"), other),
        (Placeholders(workspace="/w/two"), "/w/two"),
    ):
        played = RecordedModel(tmp_path / "r", places=places)
        reply = await played.complete(talk(1, workspace=workspace))
        assert json.loads(reply.message.calls[0].arguments) == {"path": f"{workspace}/a"}


async def test_an_error_is_recorded_and_played_back(tmp_path: Path) -> None:
    def failing(_: ModelRequest) -> ScriptedReply:
        raise ModelFailed("overloaded", retryable=True)

    path = tmp_path / "r"
    model = RecordingModel(
        ScriptedModel(answering=failing),
        path,
        places=here(),
        environment="process",
        plan=ULID,
    )
    await model.prepare()
    with pytest.raises(ModelFailed):
        await model.complete(talk(0))
    await model.close()
    with pytest.raises(ModelFailed, match="overloaded") as caught:
        await RecordedModel(path, places=here()).complete(talk(0))
    assert caught.value.retryable


async def test_an_error_keeps_its_kind_its_cure_and_its_exit(tmp_path: Path) -> None:
    errors = iter(
        [
            ModelUnavailable("no key", hint=f"put it in, {SECRET}", details={"kind": "no_key"}),
            ModelFailed("too long", details={"kind": "context_too_long"}),
        ]
    )

    def failing(_: ModelRequest) -> ScriptedReply:
        raise next(errors)

    path = tmp_path / "r"
    model = RecordingModel(
        ScriptedModel(answering=failing),
        path,
        places=Placeholders(secrets=(SECRET,)),
        environment="process",
        plan=ULID,
    )
    await model.prepare()
    for turn, kind in enumerate((ModelUnavailable, ModelFailed)):
        with pytest.raises(kind):
            await model.complete(talk(turn))
    await model.close()
    played = RecordedModel(path)
    with pytest.raises(ModelUnavailable, match="no key") as missing:
        await played.complete(talk(0))
    assert (missing.value.hint, missing.value.exit_code) == ("put it in, [hidden]", 4)
    with pytest.raises(ModelFailed) as long:
        await played.complete(talk(1))
    assert long.value.details["kind"] == "context_too_long"


GOOD = '{"patchyard_recording": 1, "plan": "P", "environment": "process", "context_tokens": "x"}\n'
REQUEST = '"request": {"kept": 0, "messages": []}'
SAID = '{"speaker": "assistant", "text": "", "calls": []}'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no recording of this format"),
        ("{}", "no recording of this format"),
        ("nonsense", "is no recording"),
        ("[" * 100_000, "is no recording"),
        (GOOD + '{"no": 1}\n', "line 2"),
        (GOOD + "[]\n", "line 2"),
        (GOOD + '{"request": {"kept": "x", "messages": []}}\n', "line 2"),
        (GOOD + f"{{{REQUEST}}}\n", "line 2"),
        (GOOD + f'{{{REQUEST}, "reply": {{}}}}\n', "line 2"),
        (GOOD + f'{{{REQUEST}, "error": {{"code": "x"}}}}\n', "line 2"),
        (
            GOOD + f'{{{REQUEST}, "reply": {{"message": {SAID}, "usage": {{}}, "stop": "done", '
            '"model": "m"}}}\n',
            "line 2",
        ),
        (GOOD + "[" * 100_000 + "\n", "line 2"),
        (GOOD + '{"hash": "ha', "ends in the middle of line 2"),
    ],
)
def test_what_is_no_recording_is_refused_at_its_place(
    tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / "r"
    path.write_text(content)
    with pytest.raises(UsageError, match=words):
        RecordedModel(path)


async def test_a_recording_that_was_cut_says_how_to_go_on_with_it(tmp_path: Path) -> None:
    path = await record(tmp_path / "r", turns=2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with pytest.raises(UsageError, match="ends in the middle of line 3") as caught:
        RecordedModel(path)
    assert f"`agents plan resume {ULID}`" in caught.value.hint
    path.write_bytes(whole)
    model = RecordedModel(path, places=here())
    for turn in range(2):
        await model.complete(talk(turn))
    with pytest.raises(ModelFailed, match="asked for one more") as ended:
        await model.complete(talk(2))
    assert f"`agents plan resume {ULID}`" in ended.value.hint


def test_pipes_and_links_are_neither_read_nor_written(tmp_path: Path) -> None:
    pipe, link, folder = tmp_path / "pipe", tmp_path / "link", tmp_path / "folder"
    os.mkfifo(pipe, 0o644)
    folder.mkdir()
    target = tmp_path / "target"
    link.symlink_to(target)
    for path, words in ((pipe, "no ordinary file"), (folder, "cannot"), (link, "cannot")):
        with pytest.raises(UsageError, match=words):
            resumed(path)
    assert stat.S_IMODE(pipe.stat().st_mode) == 0o644
    assert not target.exists()
    for path in (pipe, folder):
        with pytest.raises(UsageError, match="no ordinary file"):
            RecordedModel(path)


async def test_a_secret_that_json_writes_otherwise_is_hidden_too(tmp_path: Path) -> None:
    secret = 'a"quoted\\key'
    path = tmp_path / "r"
    model = RecordingModel(
        ScriptedModel(
            answering=lambda _: ScriptedReply(text=secret, calls=(("t", {"key": secret}),))
        ),
        path,
        places=Placeholders(secrets=(secret,)),
        environment="process",
        plan=ULID,
    )
    await model.prepare()
    await model.complete(talk(0))
    await model.close()
    assert "quoted" not in path.read_text()


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        RecordedModel(tmp_path / "nothing")
    with pytest.raises(UsageError, match="cannot be written"):
        RecordingModel(
            ScriptedModel(),
            tmp_path / "no" / "r",
            places=here(),
            environment="process",
            plan=ULID,
        )
