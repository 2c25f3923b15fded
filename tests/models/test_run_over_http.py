"""`agents run` over both wire formats: the same change as played back, faults in a clear state."""

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from models.loopback import LoopbackServer
from models.ollama_server import OllamaServer
from models.servers import ChatServer
from patchyard.models.scripted import ScriptedReply

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

CHECK = "python3 -c \"import greet; assert greet.greet() == 'hello'\""
EDIT = {"path": "greet.py", "old_string": '"helo"', "new_string": '"hello"'}
WORK = (
    ScriptedReply(text="I look.", calls=(("read_file", {"path": "greet.py"}),)),
    ScriptedReply(calls=(("search_replace", EDIT),)),
    ScriptedReply(calls=(("finish", {"summary": "greets right"}),)),
)
PLAN = ScriptedReply(calls=(("finish", {"summary": "1. mend greet.py"}),))
SERVERS: dict[str, tuple[type[ChatServer | OllamaServer], str]] = {
    "chat": (ChatServer, "openai:tiny"),
    "ollama": (OllamaServer, "ollama:tiny"),
}


@dataclass(kw_only=True)
class Site:
    """A repository with a mistake, and the command line."""

    folder: Path
    server: LoopbackServer
    environ: dict[str, str] = field(default_factory=dict)

    async def run(self, model: str, *more: str) -> tuple[int, dict[str, Any]]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "patchyard", "run", "Mend the greeting", "--model", model),
            *("--in", "process", "--validate", CHECK, "--format", "json", *more),
            cwd=self.folder,
            env={**os.environ, **self.environ},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        return process.returncode or 0, json.loads(out)


def make(fmt: str, folder: Path) -> Site:
    repository = folder / "repository"
    repository.mkdir()
    (repository / "greet.py").write_text('def greet():\n    return "helo"\n')
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "begin"]):
        subprocess.run(["git", *command], cwd=repository, check=True)
    server = SERVERS[fmt][0]()

    def answering(turn: int) -> ScriptedReply:
        tools = {tool["function"]["name"] for tool in server.requests[-1]["tools"]}
        return WORK[turn] if "write_file" in tools else PLAN

    server.answering = answering
    return Site(folder=repository, server=server)


@pytest.mark.parametrize("fmt", SERVERS)
async def test_a_run_gives_the_same_change_as_its_recording(fmt: str, tmp_path: Path) -> None:
    site = make(fmt, tmp_path)
    async with site.server.running() as url:
        site.environ = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k-12345678", "OLLAMA_HOST": url}
        code, lived = await site.run(SERVERS[fmt][1], "--record", str(tmp_path / "talk"))
    assert code == 0, lived
    asked = len(site.server.requests)
    code, played = await site.run(f"recorded:{tmp_path / 'talk'}")
    assert code == 0, played
    assert lived["data"]["changed"]
    assert played["data"]["changeset"]["tree"] == lived["data"]["changeset"]["tree"]
    assert len(site.server.requests) == asked
    assert "k-12345678" not in (tmp_path / "talk").read_text()


@pytest.mark.parametrize("fmt", SERVERS)
@pytest.mark.parametrize("fault", ["cut", "endless", "empty"])
async def test_a_fault_in_an_answer_ends_in_a_clear_state(
    fmt: str, fault: str, tmp_path: Path
) -> None:
    site = make(fmt, tmp_path)
    site.server.faults = [fault] * 20
    async with site.server.running() as url:
        site.environ = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k-12345678", "OLLAMA_HOST": url}
        code, ended = await site.run(SERVERS[fmt][1])
    assert code == 1
    assert ended["status"] == "error"
    assert len(ended["error"]["message"].split()) >= 4
