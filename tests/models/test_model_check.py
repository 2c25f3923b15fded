"""`agents model check` and `list`: what is said of a model before anything is done."""

import asyncio
import json
import sys
from typing import Any

import pytest

from models.ollama_server import OllamaServer
from models.servers import ChatServer

pytestmark = pytest.mark.anyio


async def command(environ: dict[str, str], *words: str) -> tuple[int, Any, str]:
    """Call `agents model`; return its exit code, its JSON and its other words."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "patchyard", "model", *words, "--format", "json"),
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, json.loads(out), err.decode()


@pytest.fixture
def environ(tmp_path: Any) -> dict[str, str]:
    home = {"HOME": str(tmp_path), "PATCHYARD_HOME": str(tmp_path / "home")}
    return {**home, "PATH": "/usr/bin:/bin", "OLLAMA_HOST": "http://127.0.0.1:9"}


async def test_a_cold_model_is_waited_for_and_said_to_work(environ: dict[str, str]) -> None:
    server = OllamaServer(still_loading=1)
    async with server.running() as url:
        code, said, err = await command({**environ, "OLLAMA_HOST": url}, "check", "ollama:tiny")
    assert (code, said["data"]["facts"]["context_tokens"]) == (0, 32_768)
    assert "waits for tiny to be loaded" in err


async def test_a_model_that_its_provider_lacks_does_not_work(environ: dict[str, str]) -> None:
    async with ChatServer(key="k-1234567").running() as url:
        known = {**environ, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k-1234567"}
        good, _, _ = await command(known, "check", "openai:tiny")
        code, said, _ = await command(known, "check", "openai:tinny")
    assert (good, code) == (0, 4)
    assert said["error"]["hint"] == "it has `tiny`"


async def test_a_list_shows_addresses_without_their_passwords(environ: dict[str, str]) -> None:
    secret = {"OPENAI_BASE_URL": "http://user:s3cret-word@127.0.0.1:9/v1"}
    code, said, err = await command({**environ, **secret}, "list")
    rows = {row["provider"]: row["base_url"] for row in said["data"]["providers"]}
    assert (code, rows["openai"]) == (0, "http://127.0.0.1:9/v1")
    assert "s3cret-word" not in json.dumps(said) + err
