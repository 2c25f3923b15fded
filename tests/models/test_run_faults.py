"""A plan whose provider fails ends in a clear state, and goes on when the provider is well."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from models.ollama_server import OllamaServer
from models.scenes import KEY, PLAN, SERVERS, TASK, Scene, leaks, said_to, set_up, working
from models.servers import USAGE
from patchyard.assembly import open_equipment
from patchyard.domain.errors import ModelFailed
from patchyard.domain.events import Event, LimitsChanged
from patchyard.domain.plan import Phase, State
from patchyard.domain.steering import RetryPlanned
from patchyard.engine.workflow import Workflow
from patchyard.intake import spec_of
from patchyard.models.scripted import ScriptedReply

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What goes wrong, and what is said of it."""

    words: str
    faults: tuple[str, ...] = ()  # from the second request on
    reply: ScriptedReply | None = None  # in place of the right ones
    settings: dict[str, Any] = field(default_factory=dict)
    exit_code: int = 1
    code: str = "model_failed"
    hint: str = "`agents plan resume`"


SILENT = {"idle_s": 1, "first_byte_s": 1}
PATIENT = {"idle_s": 60, "first_byte_s": 60}
FAULTS = {
    "dropped in mid-stream": Fault(faults=("cut",), words="ended in the middle"),
    "dropped before the answer": Fault(faults=("drop",), words="ended in the middle"),
    "silent in mid-stream": Fault(faults=("silent",), settings=SILENT, words="sent nothing for"),
    "silent from the start": Fault(faults=("mute",), settings=SILENT, words="no answer in time"),
    "no JSON": Fault(
        faults=("garbage",),
        settings={"is_streaming": False},
        words="is no JSON: it begins with '<html>'",
    ),
    "status 401": Fault(
        faults=("status:401",),
        exit_code=4,
        code="model_unavailable",
        words="house refused the key",
        hint="HOUSE_KEY",
    ),
    "status 403": Fault(
        faults=("status:403",),
        exit_code=4,
        code="model_unavailable",
        words="house refused the key",
        hint="HOUSE_KEY",
    ),
    "status 404": Fault(
        faults=("status:404",),
        exit_code=4,
        code="model_unavailable",
        words="has no model 'tiny'",
        hint="`",
    ),
    "status 429": Fault(faults=("status:429",), words="asks to slow down"),
    "status 413": Fault(
        faults=("status:413",), words="too long for house:tiny", hint="`context_tokens` of house"
    ),
    "status 500": Fault(faults=("status:500",), words="answered 500"),
    "still loading": Fault(
        faults=("status:503",),
        words="answered 503",
    ),
    "an empty reply": Fault(
        faults=("empty",) * 4,
        code="failed",
        words="answered with nothing 4 times",
    ),
    "an answer without end": Fault(
        faults=("endless",) * 4,
        code="failed",
        words="cut for their length 4 times",
    ),
    "invalid arguments": Fault(
        reply=ScriptedReply(calls=(("read_file", '{"path": "greet'),)),
        code="failed",
        words="could not be carried out",
    ),
    "an unknown tool": Fault(
        reply=ScriptedReply(calls=(("open_browser", {"url": "x"}),)),
        code="failed",
        words="there is no tool 'open_browser'",
    ),
}


def fail(scene: Scene, fault: Fault) -> None:
    """Let the server plan, and then fail."""
    scene.server.faults = ["", *fault.faults]
    wrong = fault.reply

    def answering(_turn: int) -> ScriptedReply:
        right = working(scene.server)
        return right if wrong is None or right is PLAN else wrong

    scene.server.answering = answering


CASES = [
    *((fmt, name) for fmt in ("chat", "messages", "responses") for name in FAULTS),
    *(
        ("ollama", name)
        for name in (
            *("dropped in mid-stream", "an empty reply", "invalid arguments"),
            *("an unknown tool", "an answer without end"),
        )
    ),
]


async def read_back(scene: Scene, plan_id: str) -> list[Event]:
    async with open_equipment(scene.site.environ) as equipment:
        ledger = await scene.site.ledger(equipment, plan_id)
        return [event for _, _, event in await ledger.events()]


@pytest.mark.parametrize(("fmt", "name"), CASES)
async def test_a_fault_ends_in_a_clear_state_and_the_plan_goes_on(
    fmt: str, name: str, tmp_path: Path
) -> None:
    scene, fault = set_up(fmt, tmp_path), FAULTS[name]
    fail(scene, fault)
    async with scene.server.running() as url:
        environ = scene.configure(url, **fault.settings)
        ended = await scene.carry(environ)
        assert ended.error is not None
        assert (ended.error.exit_code, ended.error.code) == (fault.exit_code, fault.code)
        assert fault.words in ended.error.message
        assert fault.hint in ended.error.hint
        assert (ended.state.phase, ended.state.state) == (Phase.EXECUTE, State.ERRORED)
        assert ended.state.failure is not None
        assert ended.state.failure.message == ended.error.message
        scene.be_well()
        environ = scene.configure(url, **{**fault.settings, **PATIENT})
        resumed = await scene.carry(environ, ended.plan_id)
    assert resumed.error is None, resumed.words
    assert resumed.state.state is State.COMPLETE
    assert resumed.state.changeset is not None
    assert resumed.state.changeset.files == 1
    assert KEY not in ended.words
    assert leaks(tmp_path) == []


@pytest.mark.parametrize("fault", ["cut", "status:429", "status:500"])
async def test_a_fault_that_passes_is_waited_out_by_itself(fault: str, tmp_path: Path) -> None:
    scene = set_up("chat", tmp_path)
    scene.be_well()
    scene.server.faults = ["", "", fault]
    async with scene.server.running() as url:
        ended = await scene.carry(scene.configure(url, retries=1))
        events = await read_back(scene, ended.plan_id)
    assert ended.error is None
    assert [event.number for event in events if isinstance(event, RetryPlanned)] == [1]
    assert ended.state.changeset is not None
    assert ended.state.changeset.files == 1


@pytest.mark.parametrize("fmt", SERVERS)
async def test_a_provider_that_is_not_there_ends_planning_and_the_plan_goes_on(
    fmt: str, tmp_path: Path
) -> None:
    scene = set_up(fmt, tmp_path)
    scene.be_well()
    ended = await scene.carry(scene.configure("http://127.0.0.1:9/v1"))
    assert ended.error is not None
    assert (ended.error.exit_code, ended.error.code) == (4, "model_unavailable")
    assert "nothing answers there" in ended.words
    assert (ended.state.phase, ended.state.state) == (Phase.STRATEGIZE, State.ERRORED)
    async with scene.server.running() as url:
        resumed = await scene.carry(scene.configure(url), ended.plan_id)
    assert resumed.error is None
    roots = [one for one in resumed.state.decisions if one.parent_id is None]
    assert len(roots) == 1


async def test_a_model_of_unknown_price_is_said_to_be_bounded_by_tokens(tmp_path: Path) -> None:
    scene = set_up("chat", tmp_path)
    scene.be_well()
    async with scene.server.running() as url:
        ended = await scene.carry(scene.configure(url))
    assert ended.error is None
    assert not ended.state.spent.is_priced
    said = "house:tiny (named); its price is not known: at most 2,000,000 tokens"
    assert (scene.chosen, scene.waited) == ([said], [])


async def test_a_model_that_is_loading_is_waited_for_and_shown(tmp_path: Path) -> None:
    scene = set_up("ollama", tmp_path)
    scene.be_well()
    assert isinstance(scene.server, OllamaServer)
    scene.server.still_loading = 1
    async with scene.server.running() as url:
        ended = await scene.carry(scene.configure(url))
    assert ended.error is None
    assert set(scene.waited) == {"tiny to be loaded with a window of 32,768 tokens"}


async def test_a_model_that_never_gets_loaded_is_bounded_by_the_plans_time(tmp_path: Path) -> None:
    scene = set_up("ollama", tmp_path)
    assert isinstance(scene.server, OllamaServer)
    scene.server.still_loading = 1_000_000
    async with scene.server.running() as url:
        ended = await scene.carry(scene.configure(url), seconds=8)
    assert ended.error is not None
    assert (ended.error.exit_code, ended.error.code) == (5, "limit")
    assert ended.state.state is State.CONSTRAINED
    assert scene.waited


@pytest.mark.parametrize(("fault", "is_lost"), [("cut", True), ("status:401", False)])
async def test_a_lost_answer_is_budgeted_and_a_refused_request_is_not(
    fault: str, tmp_path: Path, *, is_lost: bool
) -> None:
    scene = set_up("chat", tmp_path)
    scene.be_well()
    scene.server.faults = ["", "", fault]
    async with scene.server.running() as url:
        environ = scene.configure(url)
        ended = await scene.carry(environ)
        resumed = await scene.carry(environ, ended.plan_id)
    assert resumed.error is None
    answered = resumed.state.spent.steps * USAGE["prompt_tokens"]
    lost = resumed.state.spent.input_tokens - answered
    assert lost >= USAGE["prompt_tokens"] if is_lost else lost == 0


async def test_a_lost_answer_is_budgeted_once_when_one_process_asks_again(tmp_path: Path) -> None:
    lost = []
    for is_one in (True, False):
        scene = set_up("chat", tmp_path / str(int(is_one)))
        scene.be_well()
        scene.server.faults = ["", "", "cut"]
        async with scene.server.running() as url:
            environ = scene.configure(url)
            asked = replace(TASK, repository=str(scene.site.repository))
            async with open_equipment(environ) as equipment:
                workflow = Workflow(equipment)
                plan_id = await workflow.create(spec_of(asked, environ))
                with pytest.raises(ModelFailed):
                    await workflow.run(plan_id)
                if is_one:
                    await workflow.run(plan_id)
            spent = (await scene.carry(environ, plan_id)).state.spent
        lost.append(spent.input_tokens - spent.steps * USAGE["prompt_tokens"])
    assert lost[0] == lost[1] > 0


@pytest.mark.parametrize("fmt", SERVERS)
async def test_a_resumed_plan_says_word_for_word_what_was_said_before(
    fmt: str, tmp_path: Path
) -> None:
    scene = set_up(fmt, tmp_path)
    scene.be_well()
    async with scene.server.running() as url:
        environ = scene.configure(url)
        stopped = await scene.carry(environ, steps=3)
        assert stopped.error is not None
        scene.server.faults = ["cut"]
        async with open_equipment(environ) as equipment:
            ledger = await scene.site.ledger(equipment, stopped.plan_id)
            await ledger.record(LimitsChanged(limits=replace(ledger.state.limits, steps=9)))
        await scene.carry(environ, stopped.plan_id)  # its answer is lost
        resumed = await scene.carry(environ, stopped.plan_id)
    assert resumed.error is None, resumed.words
    *before, last, lost, again = [said_to(request) for request in scene.server.requests]
    assert before
    assert again == lost
    assert lost[: len(last)] == last
    assert again[len(last) :][0].get("role", "assistant") == "assistant"
