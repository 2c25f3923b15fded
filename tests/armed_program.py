"""A program: carries out commands of `agents` where it runs, and says how they ended.

It takes `steps`, `repo` and `place` (for a clone) as JSON on standard input. Most commands run in
this process, which saves the time to start one; those that serve a client are processes of their
own.
"""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from patchyard.cli.main import agents
from patchyard.execution.cloning import TaskConfig, clone

__all__ = ["main"]

LONGEST_S = 240
SHOWN = 800
MARK, CALL = "@mark", "@call"
SETTLED = "ToolCallSettled"
READY = "at once"  # says a worker that takes plans
DONE = ("execute", "complete")
CLIENT = {"name": "armed", "version": "1"}
TOOLS: Sequence[tuple[str, Mapping[str, Any]]] = (  # of `mcp serve`
    ("make_plan", {"task": "t", "validate": ["test -e made"]}),
    ("plan_status", {"wait_s": 50}),
    ("list_plans", {}),
    ("plan_diff", {}),
)
CALLS: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}),
    *(("tools/call", {"name": name, "arguments": given}) for name, given in TOOLS),
)


def main() -> None:
    """Carry out what standard input says."""
    given = json.load(sys.stdin)
    said = []
    with contextlib.ExitStack() as stack:
        for step in given["steps"]:
            code, text = _carried_out(step, stack)
            said.append([step["words"], code, text[-SHOWN:]])
    task = TaskConfig(id="t", repo_url=given["repo"])
    with contextlib.suppress(Exception):  # a partial clone cannot be cloned
        home = Path(os.environ["PATCHYARD_HOME"])
        clone(task, Path(given["place"]), home=home, environ=os.environ)
    sys.stdout.write(json.dumps(said))


def _carried_out(step: Mapping[str, Any], stack: contextlib.ExitStack) -> tuple[int, str]:
    words = [_found(word) for word in step["words"]]
    if words == ["end"]:
        said = _until_done()
        stack.close()
        return said
    if words[0] == "move":
        Path(words[1]).rename(words[2])
        return 0, ""
    if step["is_beside"]:
        stack.enter_context(_beside(words))
        return 0, ""
    if words[:2] == ["mcp", "serve"]:
        return _served(words)
    with _variables(step["environ"]), _typed(step["typed"]):
        return _here(words)


def _found(word: str) -> str:
    """Return a word; one that stands for an id of the last plan becomes that."""
    if word == MARK:
        code, plan = _here(["plan", "status", "--format", "json"])
        marks = json.loads(plan)["data"]["execution"]["checkpoints"] if not code else []
        return str(marks[0]["checkpoint_id"]) if marks else word
    if word == CALL:
        code, told = _here(["plan", "events", "--format", "json"])
        events = json.loads(told)["data"]["events"] if not code else []
        return next((str(each["call_id"]) for each in events if each["event"] == SETTLED), word)
    return word


def _here(words: Sequence[str]) -> tuple[int, str]:
    """Run a command in this process; return its exit code and what it printed."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = agents.main(args=[*words], prog_name="agents", standalone_mode=False)
        except click.ClickException as error:
            error.show(out)
            code = 2
    out.seek(0)
    return code or 0, out.read()


@contextlib.contextmanager
def _variables(further: Mapping[str, str]) -> Iterator[None]:
    os.environ.update(further)
    try:
        yield
    finally:
        for name in further:
            del os.environ[name]


@contextlib.contextmanager
def _typed(text: str) -> Iterator[None]:
    """Let standard input be a text."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        os.dup2(file.fileno(), sys.stdin.fileno())
        yield


@contextlib.contextmanager
def _beside(words: Sequence[str]) -> Iterator[None]:
    """Let a worker run from when it listens; fails where it does not end well when it is told."""
    process = subprocess.Popen(
        [sys.executable, "-m", "patchyard", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        while READY not in process.stderr.readline():
            assert process.poll() is None, words
        yield
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=LONGEST_S)[1]
        assert process.returncode == 0, said
    finally:
        process.kill()
        process.wait()


def _until_done() -> tuple[int, str]:
    """Wait until the last plan is done, or there is none."""
    latest = time.monotonic() + LONGEST_S
    while True:
        code, plan = _here(["plan", "status", "--format", "json"])
        data = {} if code else json.loads(plan)["data"]
        if code or (data["phase"], data["state"]) == DONE or time.monotonic() > latest:
            return int((data.get("phase"), data.get("state")) != DONE), plan
        time.sleep(0.1)


def _served(words: Sequence[str]) -> tuple[int, str]:
    """Be a client of a server: call its tools, one after the other, and go.

    Return its exit code, or how many calls it refused.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "patchyard", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        answers = [_asked(process, number, *call) for number, call in enumerate(CALLS)]
        plan = answers[1]["result"].get("structuredContent", {}).get("plan_id", "")
        apply = {"name": "apply_plan", "arguments": {"plan_id": plan}}
        answers.append(_asked(process, len(CALLS), "tools/call", apply))
        assert process.stdin is not None
        process.stdin.close()
        code = process.wait(LONGEST_S)
    finally:
        process.kill()
        process.wait()
    wrong = [each for each in answers if each.get("result", {"isError": True}).get("isError")]
    return code or len(wrong), json.dumps(wrong)


def _asked(
    process: subprocess.Popen[bytes], number: int, method: str, params: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Ask a server, and return its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    for line in process.stdout:
        answer: Mapping[str, Any] = json.loads(line)
        if answer.get("id") == number:
            return answer
    raise AssertionError(method)


if __name__ == "__main__":
    main()
