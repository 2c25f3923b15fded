"""A plan whose provider fails ends in a clear state, and goes on when the provider is well."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite
from models.ollama_server import OllamaServer
from models.servers import ChatServer
from patchyard.assembly import open_equipment
from patchyard.domain.errors import PatchyardError
from patchyard.domain.plan import Phase, State
from patchyard.domain.state import PlanState
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, spec_of
from patchyard.models.scripted import ScriptedReply

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

KEY = "k-0123456789-never-shown"
EDIT = {"path": "greet.py", "old_string": "helo", "new_string": "hello"}
PLAN = ScriptedReply(calls=(("finish", {"summary": "mend greet.py"}),))
WORK = (
    ScriptedReply(text="I look.", calls=(("read_file", {"path": "greet.py"}),)),
    ScriptedReply(calls=(("search_replace", EDIT),)),
    ScriptedReply(calls=(("finish", {"summary": "greets right"}),)),
)
SERVERS: dict[str, type[ChatServer | OllamaServer]] = {"chat": ChatServer, "ollama": OllamaServer}
KINDS = {"chat": "openai-compatible", "ollama": "ollama"}


@dataclass(kw_only=True)
class Scene:
    """A repository, and a server that fails while the plan is executed."""

    site: Worksite
    server: ChatServer | OllamaServer
    fmt: str
    waited: list[str] = field(default_factory=list)

    def configure(self, url: str, **settings: Any) -> dict[str, str]:
        """Write the provider `house` down and return the engine's environment."""
        house = {"kind": KINDS[self.fmt], "base_url": url, "api_key_env": "HOUSE_KEY", **settings}
        folder = self.site.folder / "config" / "patchyard"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "models.yaml").write_text(json.dumps({"providers": {"house": house}}))
        config = str(self.site.folder / "config")
        return {**self.site.environ, "XDG_CONFIG_HOME": config, "HOUSE_KEY": KEY}

    async def carry(self, environ: dict[str, str], plan_id: str = "", **options: Any) -> "Ended":
        """Run a new plan, or carry one on, as one command does."""
        error = None
        async with open_equipment(environ) as equipment:
            workflow = Workflow(equipment, watching=Watching(on_wait=self.waited.append))
            if not plan_id:
                asked = Asked(
                    task="Mend the greeting",
                    repository=str(self.site.repository),
                    model="house:tiny",
                    kind="process",
                    **options,
                )
                plan_id = await workflow.create(spec_of(asked, environ))
            try:
                await workflow.run(plan_id)
            except PatchyardError as failure:
                error = failure
            state = (await self.site.ledger(equipment, plan_id)).state
        return Ended(plan_id=plan_id, state=state, error=error)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How one command ended."""

    plan_id: str
    state: PlanState
    error: PatchyardError | None

    @property
    def words(self) -> str:
        assert self.error is not None
        return f"{self.error.message} | {self.error.hint}"


def set_up(fmt: str, folder: Path) -> Scene:
    site = Worksite.make(folder, {"greet.py": "print('helo')\n"})
    return Scene(site=site, server=SERVERS[fmt](key=KEY), fmt=fmt)


def working(server: ChatServer | OllamaServer) -> ScriptedReply:
    """The right reply to the request at hand."""
    asked = server.requests[-1]
    if "write_file" not in {tool["function"]["name"] for tool in asked["tools"]}:
        return PLAN
    results = [str(m["content"]) for m in asked["messages"] if m["role"] == "tool"]
    if any("replaced: +" in text for text in results):
        return WORK[2]
    return WORK[1] if any("helo" in text for text in results) else WORK[0]


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


SILENT = {"idle_s": 0.2, "first_byte_s": 0.4}
FAULTS = {
    "dropped in mid-stream": Fault(faults=("cut",), words="ended in the middle"),
    "dropped before the answer": Fault(faults=("drop",), words="ended in the middle"),
    "silent in mid-stream": Fault(faults=("silent",), settings=SILENT, words="sent nothing for"),
    "silent from the start": Fault(faults=("mute",), settings=SILENT, words="no answer in time"),
    "no JSON": Fault(faults=("garbage",), settings={"is_streaming": False}, words="is no JSON"),
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


def be_well(scene: Scene) -> None:
    scene.server.faults = []
    scene.server.answering = lambda _: working(scene.server)


def leaks(folder: Path) -> list[str]:
    """Files below `folder` that hold the key."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in files if KEY.encode() in path.read_bytes()]


CASES = [
    *(("chat", name) for name in FAULTS),
    *(
        ("ollama", name)
        for name in (
            *("dropped in mid-stream", "an empty reply", "invalid arguments"),
            *("an unknown tool", "an answer without end"),
        )
    ),
]


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
        be_well(scene)
        resumed = await scene.carry(environ, ended.plan_id)
    assert resumed.error is None, resumed.words
    assert resumed.state.state is State.COMPLETE
    assert resumed.state.changeset is not None
    assert resumed.state.changeset.files == 1
    assert KEY not in ended.words
    assert leaks(tmp_path) == []


@pytest.mark.parametrize("fmt", SERVERS)
async def test_a_provider_that_is_not_there_ends_planning_and_the_plan_goes_on(
    fmt: str, tmp_path: Path
) -> None:
    scene = set_up(fmt, tmp_path)
    be_well(scene)
    ended = await scene.carry(scene.configure("http://127.0.0.1:9/v1"))
    assert ended.error is not None
    assert (ended.error.exit_code, ended.error.code) == (4, "model_unavailable")
    assert "nobody answers there" in ended.words
    assert (ended.state.phase, ended.state.state) == (Phase.STRATEGIZE, State.ERRORED)
    async with scene.server.running() as url:
        resumed = await scene.carry(scene.configure(url), ended.plan_id)
    assert resumed.error is None
    roots = [one for one in resumed.state.decisions if one.parent_id is None]
    assert len(roots) == 1


async def test_a_model_that_is_loading_is_waited_for_and_shown(tmp_path: Path) -> None:
    scene = set_up("ollama", tmp_path)
    be_well(scene)
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
        ended = await scene.carry(scene.configure(url), seconds=0.5)
    assert ended.error is not None
    assert (ended.error.exit_code, ended.error.code) == (5, "limit")
    assert ended.state.state is State.CONSTRAINED
    assert scene.waited
