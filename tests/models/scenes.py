"""A repository with a mistake, and a provider on loopback that a plan asks to mend it."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.worksite import Worksite
from models.messages_server import MessagesServer
from models.ollama_server import OllamaServer
from models.responses_server import ResponsesServer
from models.servers import ChatServer
from patchyard.assembly import open_equipment
from patchyard.domain.errors import PatchyardError
from patchyard.domain.state import PlanState
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, spec_of
from patchyard.models.scripted import ScriptedReply

KEY = "k-0123456789-never-shown"
EDIT = {"path": "greet.py", "old_string": "helo", "new_string": "hello"}
PLAN = ScriptedReply(calls=(("finish", {"summary": "mend greet.py"}),))
WORK = (
    ScriptedReply(text="I look.", calls=(("read_file", {"path": "greet.py"}),)),
    ScriptedReply(calls=(("search_replace", EDIT),)),
    ScriptedReply(calls=(("finish", {"summary": "greets right"}),)),
)
Server = ChatServer | MessagesServer | OllamaServer | ResponsesServer
SERVERS: dict[str, type[Server]] = {
    "chat": ChatServer,
    "messages": MessagesServer,
    "ollama": OllamaServer,
    "responses": ResponsesServer,
}
TASK = Asked(task="Mend the greeting", model="house:tiny", kind="process")
KINDS = {
    "chat": "openai-compatible",
    "messages": "anthropic",
    "ollama": "ollama",
    "responses": "openai-responses",
}


@dataclass(kw_only=True)
class Scene:
    """A repository, a provider and an engine's home."""

    site: Worksite
    server: Server
    fmt: str
    waited: list[str] = field(default_factory=list)
    chosen: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)

    def be_well(self) -> None:
        """Let the provider answer as it should from now on."""
        self.server.faults = []
        self.server.answering = lambda _: working(self.server)

    def configure(self, url: str, *, retries: int = 0, **settings: Any) -> dict[str, str]:
        """Write the provider `house` down and return the engine's environment."""
        house = {"kind": KINDS[self.fmt], "base_url": url, "api_key_env": "HOUSE_KEY", **settings}
        folder = self.site.folder / "config" / "patchyard"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "models.yaml").write_text(json.dumps({"providers": {"house": house}}))
        config = str(self.site.folder / "config")
        safety = f"{{max_retries_per_step: {retries}}}"
        own = {"XDG_CONFIG_HOME": config, "HOUSE_KEY": KEY, "PATCHYARD_SAFETY": safety}
        return {**self.site.environ, **own}

    async def carry(self, environ: dict[str, str], plan_id: str = "", **options: Any) -> "Ended":
        """Run a new plan, or carry one on, as one command does."""
        error = None
        async with open_equipment(environ) as equipment:
            watching = Watching(
                on_wait=self.waited.append,
                on_terms=self.chosen.append,
                on_text=self.heard.append,
            )
            workflow = Workflow(equipment, watching=watching)
            if not plan_id:
                asked = replace(TASK, repository=str(self.site.repository), **options)
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


def working(server: Server) -> ScriptedReply:
    """The right reply to the request at hand."""
    asked = server.requests[-1]
    if "write_file" not in {tool.get("function", tool)["name"] for tool in asked["tools"]}:
        return PLAN
    results = [text for message in said_to(asked) for text in _results(message)]
    if any("replaced: +" in text for text in results):
        return WORK[2]
    return WORK[1] if any("helo" in text for text in results) else WORK[0]


def said_to(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The conversation of a request in any format."""
    talk: list[dict[str, Any]] = asked["input"] if "input" in asked else asked["messages"]
    return talk


def _results(message: dict[str, Any]) -> list[str]:
    """What a message of any format says of calls."""
    if message.get("type") == "function_call_output":
        return [str(message["output"])]
    if message.get("type") in {"function_call", "reasoning"}:
        return []
    if message["role"] == "tool":
        return [str(message["content"])]
    blocks = message["content"] if isinstance(message["content"], list) else []
    return [str(block.get("content")) for block in blocks if block["type"] == "tool_result"]


def leaks(folder: Path) -> list[str]:
    """Files below `folder` that hold the key."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in files if KEY.encode() in _content(path)]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # the log of a database goes with the last who has it open
        return b""
