"""`agents mcp serve` and a client that sends what is no request, or does not read its answers."""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mainjob.driver import Desk
from patchyard.cli import streams
from patchyard.cli.streams import LONGEST_LINE, Answers, Requests
from patchyard.domain.errors import Unavailable

MB = 1024 * 1024
MOST = 200 * MB
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
PING = b'{"jsonrpc":"2.0","id":7,"method":"ping"}\n'


@contextlib.contextmanager
def served(desk: Desk) -> Iterator["subprocess.Popen[bytes]"]:
    words = [
        sys.executable,
        "-m",
        "patchyard",
        "mcp",
        "serve",
        "--model",
        f"scripted:{desk.script()}",
    ]
    with subprocess.Popen(
        words, cwd=desk.repo, env=desk.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def tell(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()


def hear(process: "subprocess.Popen[bytes]") -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def most_memory(process: "subprocess.Popen[bytes]") -> int:
    rows = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("VmHWM"))


@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param(b"x" * (60 * MB), -32600, id="60 MB"),
        pytest.param(b"[" + b"[]," * MB + b"[]]", -32600, id="a million lists"),
        pytest.param(b"[" * 100_000, -32700, id="deep"),
        pytest.param(b"{'a': 1}", -32700, id="no JSON"),
        pytest.param(b"\xff\xfe", -32700, id="no UTF-8"),
        pytest.param(b"[" + PING.strip() + b"]", -32600, id="a batch"),
    ],
)
def test_a_line_that_is_no_request_is_answered_and_the_server_goes_on(
    desk: Desk, line: bytes, code: int
) -> None:
    with served(desk) as process:
        tell(process, line + b"\n")
        answer = hear(process)
        assert (answer["id"], answer["error"]["code"]) == (None, code)
        tell(process, json.dumps(HELLO).encode() + b"\n")
        assert hear(process)["result"]["serverInfo"]["name"] == "patchyard"
        assert most_memory(process) < MOST


@pytest.mark.parametrize(
    ("line", "answered"),
    [
        pytest.param(b'"id":5,"method":"tools/call","params":[1]', 5, id="list of parameters"),
        pytest.param(b'"id":"n","method":"a\\ud800"', "n", id="half a surrogate as method"),
        pytest.param(
            b'"id":6,"method":"tools/call","params":{"name":"make_plan","arguments":'
            b'{"task":"\\udcff"}}',
            6,
            id="half a surrogate as task",
        ),
        pytest.param(b'"id":"\\ud800","method":"ping"', "\ud800", id="half a surrogate as id"),
        pytest.param(b'"id":[1],"method":"ping"', None, id="list as id"),
        pytest.param(b'"id":true,"method":"ping"', None, id="truth as id"),
        pytest.param(b'"id":null,"method":"ping"', None, id="null as id"),
        pytest.param(b'"id":1e400,"method":"ping"', None, id="infinite id"),
        pytest.param(b'"a":1', None, id="no message"),
    ],
)
def test_a_request_that_is_no_message_is_answered_by_its_id(
    desk: Desk, line: bytes, answered: object
) -> None:
    with served(desk) as process:
        tell(process, json.dumps(HELLO).encode() + b"\n")
        assert hear(process)["id"] == 1
        tell(process, b'{"jsonrpc":"2.0",' + line + b"}\n" + PING)
        answer = hear(process)
        assert (answer["id"], answer.get("error", {}).get("code")) == (answered, -32600)
        assert hear(process)["id"] == 7


def test_a_line_without_an_end_takes_little_memory_and_ends_with_the_input(desk: Desk) -> None:
    with served(desk) as process:
        for _ in range(300):
            tell(process, b"x" * MB)
        assert most_memory(process) < MOST
        assert process.stdin is not None
        process.stdin.close()
        assert hear(process)["error"]["code"] == -32600
        assert process.wait(60) == 0


def test_while_answers_are_not_read_nothing_more_is_and_later_each_comes(desk: Desk) -> None:
    with served(desk) as process:
        tell(process, json.dumps(HELLO).encode() + b"\n")
        assert hear(process)["id"] == 1
        tell(process, b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        assert process.stdin is not None
        inward = process.stdin.fileno()
        fcntl.fcntl(inward, fcntl.F_SETFL, fcntl.fcntl(inward, fcntl.F_GETFL) | os.O_NONBLOCK)
        data, sent, waited = PING * 40_000, 0, 0
        while waited < 20 and sent < len(data):
            try:
                sent += os.write(inward, data[sent : sent + 4096])
                waited = 0
            except BlockingIOError:  # its reader waits; asked again for a second
                waited += 1
                threading.Event().wait(0.05)
        assert sent < len(data)
        assert most_memory(process) < MOST
        whole = sent // len(PING)
        assert [hear(process)["id"] for _ in range(whole)] == [7] * whole


def test_what_is_printed_does_not_reach_the_client(capfd: pytest.CaptureFixture[str]) -> None:
    with streams.taken_over() as (source, target):
        os.write(1, b"noise")
        assert os.read(0, 9) == b""
        os.write(target, b"an answer")
        assert source > 2
    said = capfd.readouterr()
    assert (said.out, said.err) == ("an answer", "noise")


@pytest.mark.anyio
async def test_a_client_that_never_reads_its_answers_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "UNREAD_S", 0.2)
    reading, writing = os.pipe()
    try:
        with pytest.raises(Unavailable, match="has not read its answers"):
            await Answers(writing).write("x" * MB)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.anyio
async def test_lines_come_as_they_were_cut_and_the_last_needs_no_end() -> None:
    long = json.dumps({"a": "x" * (LONGEST_LINE - 20)})
    lines = ['{"a": 1}', long, "{}", '{"b": "ä"}']
    reading, writing = os.pipe()
    inward, outward = os.pipe()

    def send() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write("\n".join(lines).encode())

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with anyio.fail_after(60):
            got = [line async for line in Requests(reading, Answers(outward))]
    finally:
        os.close(reading)
        sender.join()
        os.close(inward)
        os.close(outward)
    assert got == lines
