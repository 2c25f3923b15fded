"""What a model hears while it plans."""

import pytest

from patchyard.actors.model import ModelActor
from patchyard.contracts.actor import Answered, Brief
from patchyard.domain.messages import ModelRequest, Speaker
from patchyard.domain.tooling import Effect, ToolResult, ToolSpec
from patchyard.models.scripted import ScriptedModel, ScriptedReply

pytestmark = pytest.mark.anyio


async def test_a_writing_call_while_planning_hears_the_engines_refusal_alone() -> None:
    heard: list[str] = []

    def answering(request: ModelRequest) -> ScriptedReply:
        heard.extend(m.text for m in request.messages if m.speaker is Speaker.TOOL)
        plan = ("finish", {"summary": "a plan"})
        return ScriptedReply(calls=(plan if heard else ("write_file", {"path": "a"}),))

    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    reading, writing = (
        ToolSpec(name=name, description=name, parameters=schema, effect=effect)
        for name, effect in (("read_file", Effect.READ), ("write_file", Effect.WRITE))
    )
    brief = Brief(
        plan_id="p",
        phase="strategize",
        task="t",
        workspace_path="/w",
        environment="process",
        tools=(reading, writing),
    )
    session = await ModelActor(model=ScriptedModel(answering=answering)).begin(brief)
    (wanted,) = (await session.next(())).calls
    assert wanted.arguments == {"path": "a"}  # they are shown, and journalled
    assert wanted.problem
    text = "write_file is refused: planning only reads."
    result = ToolResult(call_id="id", success=False, message=text, error="READ_ONLY")
    answer = Answered(ref=wanted.ref, name=wanted.name, result=result, text=text)
    final = await session.next((answer,))
    assert final.summary == "a plan"
    assert heard == [text]
