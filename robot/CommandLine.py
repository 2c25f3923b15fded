"""Keywords over the command line: say a command, look at what it answered.

The stage is the one of the features; a test has its own.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from robot.api.deco import keyword, library

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "features"))

from stage import LONGEST_S, Stage, call, finish

__all__ = ["CommandLine"]


@library(scope="TEST")
class CommandLine:
    """A user's shell in one repository."""

    def __init__(self) -> None:
        self._stage: Stage | None = None
        self._background: subprocess.Popen[bytes] | None = None

    @property
    def stage(self) -> Stage:
        """The stage of this test."""
        if self._stage is None:
            raise AssertionError("say `Open Repository` first")
        return self._stage

    @keyword
    def open_repository(self, project: str = "") -> None:
        """A new repository with two files, and a project of it with nothing set."""
        self._stage = Stage()
        self._stage.commit({"shop.txt": "a shop\n", "README": "what is sold here\n"})
        if project:
            self._stage.keep_project(project)

    @keyword
    def close_repository(self) -> None:
        """End what still runs and remove everything."""
        if self._background is not None and self._background.poll() is None:
            self._background.kill()
            self._background.wait()
        if self._stage is not None:
            self._stage.close()

    @keyword
    def keep_action(self, name: str) -> None:
        """An action that writes a note from its argument, and proves it."""
        body = {
            "arguments": {"text": {"required": True}},
            "steps": [{"write_file": {"path": "note.txt", "content": "{text}\n"}}],
            "validate": ["test -s note.txt"],
        }
        self.stage.keep_action(name, body)

    @keyword
    def keep_project_and_action(self) -> None:
        """Both that `plan use note shop` needs."""
        self.stage.keep_project("shop")
        self.keep_action("note")

    @keyword
    def write_short_script(self) -> str:
        """A scripted model that ends too early; its name."""
        return self.stage.script(call("read_file", path="README"))

    @keyword
    def write_script(self) -> str:
        """A scripted model that leaves a note; its name."""
        note = call("write_file", path="note.txt", content="a note\n")
        return self.stage.script(note, finish("the note is there"))

    @keyword
    def write_slow_script(self) -> str:
        """A scripted model whose command takes its time; its name."""
        slow = call("execute_command", command="sleep 60", timeout_s=90)
        note = call("write_file", path="note.txt", content="a note\n")
        return self.stage.script(slow, note, finish("the note is there"))

    @keyword
    def say(self, *words: str) -> None:
        """Run one command."""
        self.stage.agents(*words)

    @keyword
    def enter(self, line: str) -> None:
        """Run a line as it stands, in a shell."""
        self.stage.shell(line)

    @keyword
    def type(self, text: str, *words: str) -> None:
        """Run one command with this on its standard input."""
        self.stage.agents(*words, typed=text)

    @keyword
    def start(self, *words: str) -> None:
        """Run one command in the background."""
        self.stage.say_prepared()
        self._background = subprocess.Popen(
            [sys.executable, "-m", "patchyard", *words],
            cwd=self.stage.repository,
            env=self.stage.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @keyword
    def wait_until_it_waits_for(self, name: str) -> None:
        """Ask for the status until the plan waits for that."""
        deadline = time.monotonic() + LONGEST_S
        while time.monotonic() < deadline:
            said = self.stage.ask("plan", "status")
            waiting = said.data.get("waiting") if said.exit_code == 0 else None
            if waiting and name in waiting["for"]:
                return
        raise AssertionError(f"nothing waits for {name}")

    @keyword
    def background_should_exit_with(self, code: int) -> None:
        """The background's exit code, once it ends."""
        assert self._background is not None
        ended = self._background.wait(LONGEST_S)
        if ended != code:
            raise AssertionError(f"the background exits with {ended}")

    @keyword
    def say_with(self, variable: str, value: str, *words: str) -> None:
        """Run one command with an environment variable."""
        self.stage.environment[variable] = value
        try:
            self.stage.agents(*words)
        finally:
            del self.stage.environment[variable]

    @keyword
    def interrupt_when_it_runs(self, *words: str) -> None:
        """Run one streaming command, and send it Ctrl-C when its first tool call is out."""
        self.stage.say_prepared()
        command = [sys.executable, "-m", "patchyard", *words, "--stream", "--format", "json"]
        with subprocess.Popen(
            command,
            cwd=self.stage.repository,
            env=self.stage.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            lines = []
            for line in running.stdout or ():
                lines.append(line)
                if '"ToolCallRequested"' in line:
                    os.kill(running.pid, signal.SIGINT)
            running.wait()
            code = running.returncode
        if code != 130:
            raise AssertionError(f"exit {code}: {''.join(lines)}")

    @keyword
    def exit_should_be(self, code: int) -> None:
        """The exit code of the last command."""
        said = self.stage.said
        if said.exit_code != code:
            raise AssertionError(f"{said.words} exits with {said.exit_code}: {said.out}{said.err}")

    @keyword
    def output_should_hold(self, *texts: str) -> None:
        """Standard output has each of these texts."""
        self._should_hold(self.stage.said.out, texts)

    @keyword
    def output_should_be_empty(self) -> None:
        """Nothing is on standard output."""
        if self.stage.said.out:
            raise AssertionError(self.stage.said.out)

    @keyword
    def errors_should_hold(self, *texts: str) -> None:
        """Standard error has each of these texts."""
        self._should_hold(self.stage.said.err, texts)

    @keyword
    def output_should_be_a_plan_id(self) -> None:
        """Standard output is an id and nothing else."""
        said = self.stage.said
        if said.out.strip() != self.answer("plan_id", "plan", "status"):
            raise AssertionError(f"standard output: {said.out!r}")

    @keyword
    def output_should_be_one_object(self) -> None:
        """Standard output is one JSON object that says it went well, and nothing else."""
        body = self.stage.said.body
        if body["status"] != "ok" or body["error"] is not None:
            raise AssertionError(body)

    def _should_hold(self, output: str, texts: tuple[str, ...]) -> None:
        missing = [text for text in texts if text not in output]
        if missing:
            raise AssertionError(f"{missing} not in: {output}")

    @keyword
    def answer(self, path: str, *words: str) -> Any:
        """A value out of the data that a command answers, such as strategy.summary."""
        value: Any = self.stage.told(*words).data
        for part in path.split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]
        return value

    @keyword
    def error_code(self, *words: str) -> str:
        """The error code that a refused command answers."""
        said = self.stage.ask(*words)
        return str(said.body["error"]["code"])

    @keyword
    def names_of_plans(self) -> list[str]:
        """The ids of the plans of this repository, newest first."""
        plans = self.stage.told("plan", "list").data["plans"]
        return [plan["plan_id"] for plan in plans]

    @keyword
    def patch_should_fit_a_fresh_clone(self) -> None:
        """`plan diff` in a pipe is a patch that git takes, and it makes the file."""
        stage = self.stage
        clone = stage.folder / "clone"
        stage.git("clone", "--quiet", str(stage.repository), str(clone))
        patch = stage.agents("plan", "diff").out
        subprocess.run(["git", "apply", "--binary"], cwd=clone, input=patch, text=True, check=True)
        text = (clone / "note.txt").read_text(encoding="utf-8")
        if text != "a note\n":
            raise AssertionError(text)

    @keyword
    def git(self, *words: str) -> str:
        """What git says in the checkout."""
        return self.stage.git(*words)

    @keyword
    def path_of_repository(self) -> str:
        """Where the checkout lies."""
        return str(self.stage.repository)
