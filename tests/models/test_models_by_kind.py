"""What a strategy says of its task decides which of a role's models carries it out (C18)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite
from models.scenes import WORK, working
from models.servers import ChatServer
from patchyard.intake import Asked, spec_of
from patchyard.models.scripted import ScriptedReply

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    made = Worksite.make(tmp_path, {"greet.py": "print('helo')\n"})
    yield made
    await made.clear()


async def asked_of_both(
    site: Worksite, task: str, said: dict[str, Any], **options: Any
) -> tuple[set[str], set[str]]:
    """Run `task` with a strategy that says so; return the phases each model was asked in.

    The first is the developer's own model, the second the one it prefers for documentation.
    """
    own, second = ChatServer(key="k-1234567"), ChatServer(key="k-1234567")
    plan = ScriptedReply(calls=(("finish", {"summary": "mend greet.py", **said}),))
    for server in (own, second):

        def answer(_turn: int, server: ChatServer = server) -> ScriptedReply:
            reply = working(server)
            return reply if reply in WORK else plan

        server.answering = answer
    async with own.running() as one, second.running() as other:
        providers = {
            name: {"base_url": url, "api_key_env": "ACME_KEY"}
            for name, url in (("own", one), ("second", other))
        }
        developer = {
            "default_model": "tiny",
            "provider": "own",
            "task_types": {"documentation": {"default_model": "tiny", "provider": "second"}},
        }
        folder = site.folder / "config" / "patchyard"
        folder.mkdir(parents=True)
        body = {"providers": providers, "roles": {"developer": developer}}
        (folder / "models.yaml").write_text(json.dumps(body))
        environ = {
            **site.environ,
            "XDG_CONFIG_HOME": str(folder.parent),
            "ACME_KEY": "k-1234567",
            "OLLAMA_HOST": "http://127.0.0.1:9",
        }
        wanted = Asked(
            task=task, repository=str(site.repository), kind="process", validate=("",), **options
        )
        data, _, error = await site.carried(environ, spec_of(wanted, environ))
        assert error is None
        assert data["summary"] == "greets right"
    return _phases(own), _phases(second)


def _phases(server: ChatServer) -> set[str]:
    names = [{tool["function"]["name"] for tool in each["tools"]} for each in server.requests]
    return {"execute" if "write_file" in each else "strategize" for each in names}


async def test_the_kind_that_a_strategy_says_changes_who_carries_it_out(site: Worksite) -> None:
    found = await asked_of_both(site, "挨拶の説明を直してください", {"kind": "documentation"})
    assert found == ({"strategize"}, {"execute"})


async def test_a_kind_that_words_guessed_wrongly_goes_back_to_the_roles_own_model(
    site: Worksite,
) -> None:
    found = await asked_of_both(site, "The docs say helo", {"kind": "bugfix"})
    assert found == ({"execute"}, {"strategize"})


async def test_without_a_word_of_it_one_model_does_both(site: Worksite) -> None:
    found = await asked_of_both(site, "The docs say helo", {})
    assert found == (set(), {"strategize", "execute"})


async def test_a_recording_stays_with_one_model(site: Worksite) -> None:
    recording = str(site.folder / "recording.jsonl")
    found = await asked_of_both(
        site, "挨拶を直してください", {"kind": "documentation"}, record_to=recording
    )
    assert found == ({"strategize", "execute"}, set())
