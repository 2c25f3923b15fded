"""`make bench-peers`: the scripted model asks for what comes next, and the tables say what was."""

import http.client
import importlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from tree import ROOT

STEPS = 3


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.peers.scripted_model")


@contextmanager
def served(model: Any, **more: Any) -> Iterator[Any]:
    """A scripted model in a thread of its own."""

    def act(command: str) -> Any:
        return model.Call(name="bash", arguments={"command": command})

    ending = model.Call(name="finish", arguments={})
    plot = model.Plot(steps=STEPS, act=act, ending=ending, **more)
    server = model.ScriptedServer(plot=plot)
    is_up, is_over = threading.Event(), anyio.Event()
    loops: list[Any] = []

    async def serve() -> None:
        async with anyio.from_thread.BlockingPortal() as portal:
            loops.append(portal)
            listening = await server.start()
            is_up.set()
            await is_over.wait()
            listening.close()

    thread = threading.Thread(target=anyio.run, args=(serve,))
    thread.start()
    assert is_up.wait(60)
    yield server
    loops[0].call(is_over.set)
    thread.join()


def answered(server: Any, said: str, *, is_stream: bool = False) -> str:
    """The body that the model answers to a request with `said` in its last message."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port)
    body = {"stream": is_stream, "messages": [{"role": "tool", "content": said}]}
    connection.request("POST", f"{address.path}/chat/completions", json.dumps(body))
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def called(text: str) -> tuple[str, str]:
    """Tool and command of an answer that is one document."""
    wanted = json.loads(text)["choices"][0]["message"]["tool_calls"][0]["function"]
    return wanted["name"], json.loads(wanted["arguments"]).get("command", "")


def test_the_model_asks_for_the_step_after_the_last_answer_that_it_is_shown(model: Any) -> None:
    with served(model) as server:
        assert called(answered(server, "hello")) == ("bash", "echo made-$((1000000+1))")
        assert called(answered(server, "made-1000002")) == ("bash", "echo made-$((1000000+3))")
        assert not server.has_ended
        assert called(answered(server, "made-1000002 made-1000003"))[0] == "finish"
    assert server.has_ended
    assert [arrival.done for arrival in server.arrivals] == [0, 2, 3]


def test_the_model_answers_in_a_stream_where_it_is_asked_to(model: Any) -> None:
    with served(model) as server:
        text = answered(server, "made-1000001", is_stream=True)
    events = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert events[-1] == "[DONE]"
    first, last, usage = map(json.loads, events[:-1])
    call = first["choices"][0]["delta"]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == {"command": "echo made-$((1000000+2))"}
    assert last["choices"][0]["finish_reason"] == "tool_calls"
    assert usage["usage"]["total_tokens"] == 110


def test_the_model_ends_only_after_it_was_told_how_often_the_steps_took_effect(model: Any) -> None:
    with served(model, leaves_effects=True) as server:
        _, command = called(answered(server, "made-1000003"))
        assert command.startswith('echo "lines-')
        assert called(answered(server, "made-1000003 lines-4 twice-1"))[0] == "finish"
    assert server.effects == (4, 1)


def test_who_plans_first_is_answered_before_the_first_step(model: Any) -> None:
    opening = (model.Call(name="planned", arguments={}),)
    with served(model, opening=opening) as server:
        assert called(answered(server, "hello"))[0] == "planned"
        assert called(answered(server, "hello"))[0] == "bash"


@pytest.mark.timeout(900)
def test_a_loop_that_keeps_nothing_is_timed_killed_and_seen_to_start_anew(tmp_path: Path) -> None:
    words = ("bare Python", "--rounds", "1", "--steps", "12", "--long", "0")
    more = ("--environments", "0", "--into", str(tmp_path))
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", *words, *more],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    kept = json.loads((tmp_path / "figures.json").read_text())["steps"]
    figures = next(row for row in kept if row["name"] == "bare Python loop")
    assert figures["trouble"] == []
    assert figures["ms"]["10"] > 0
    assert figures["ms"]["100"] is None
    assert figures["killed"]["steps_lost"] == 19
    assert figures["killed"]["effects"] == [44, 19]
    assert figures["killed"]["survivors"] == 0
    assert "starts anew" in run.stdout
