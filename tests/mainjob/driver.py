"""A person at a desk: a repository, a home of their own, scripts for the model, and `agents`."""

import base64
import contextlib
import functools
import io
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import patchyard
from endings import ended
from patchyard.cli.main import agents as command
from services import ordinary_python

__all__ = [
    "LONGEST_S",
    "Answer",
    "Desk",
    "Waiting",
    "bits",
    "call",
    "finish",
    "git",
    "shell",
    "write",
]

LONGEST_S = 120.0  # of one command; a hang is a failure


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What `agents` said."""

    code: int
    out: bytes
    err: str

    @functools.cached_property
    def body(self) -> dict[str, Any]:
        """The JSON object of `--format json`."""
        parsed: dict[str, Any] = json.loads(self.out)
        return parsed

    @property
    def data(self) -> dict[str, Any]:
        """Its `data`."""
        found: dict[str, Any] = self.body["data"]
        return found

    @property
    def message(self) -> str:
        """The error's message and its hint."""
        error = self.body["error"]
        return f"{error['message']} | {error['hint']}" if error else ""

    @property
    def changed(self) -> dict[str, str]:
        """Path to status of the change set."""
        files = (self.data["changeset"] or {"files": []})["files"]
        return {_path(each): each["status"] for each in files}

    @property
    def findings(self) -> dict[str, str]:
        """Path to kind of what was found odd."""
        return {_path(each): each["kind"] for each in self.data["findings"]}


def _path(each: Mapping[str, str]) -> str:
    """The path of a file as it is written for programs."""
    if "path_b64" in each:
        return os.fsdecode(base64.b64decode(each["path_b64"]))
    return each["path"]


@dataclass(frozen=True, kw_only=True)
class Desk:
    """One user's things below one folder; `repo` is where `agents` is called."""

    folder: Path
    repo: Path
    user: int | None = None  # run `agents` as this user; None: who runs the test

    @property
    def _python(self) -> Sequence[str]:
        return (sys.executable,) if self.user is None else ordinary_python()

    @property
    def home(self) -> Path:
        """The user's home."""
        return self.folder / "home"

    @property
    def canary(self) -> Path:
        """Where hostile things leave a trace when they run on this machine."""
        return self.folder / "canary"

    @property
    def ran(self) -> list[str]:
        """The traces there are."""
        return sorted(place.name for place in self.canary.iterdir())

    @property
    def environ(self) -> dict[str, str]:
        """The environment of `agents`."""
        own = {
            "PATCHYARD_HOME": str(self.folder / "state"),
            "WORKSPACE_DIR": str(self.folder / "workspaces"),
            "HOME": str(self.home),
            "PYTHONPATH": str(Path(patchyard.__file__).parents[1]),
        }
        kept = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
        return {**kept, **own}

    def script(self, *replies: Mapping[str, Any], name: str = "script") -> Path:
        """Write the replies of a scripted model and return the file; a finish is added."""
        place = self.folder / f"{name}.json"
        execute = [*replies] if replies and "finish" in replies[-1] else [*replies, finish()]
        place.write_text(json.dumps({"note": "written by hand", "execute": execute}))
        return place

    def run(
        self, *replies: Mapping[str, Any], options: Sequence[str] = (), in_: str = ""
    ) -> Answer:
        """Run a task with these replies, and answer in JSON."""
        kind = ["--in", in_] if in_ else []
        path = self.script(*replies)
        return self.agents("run", "a task", "--model", f"scripted:{path}", *kind, *options)

    def agents(
        self, *arguments: str, is_json: bool = True, environ: Mapping[str, str] | None = None
    ) -> Answer:
        """Run one command, in this process where the user is ours."""
        words = [*arguments, "--format", "json"] if is_json else [*arguments]
        if self.user is None:
            return self._here(words, environ or {})
        process = self.start(*words)
        out, err = ended(process)
        return Answer(code=process.returncode, out=out, err=err.decode())

    def start(self, *arguments: str, **further: str) -> subprocess.Popen[bytes]:
        """Start one command as a process of its own, with `further` in its environment."""
        return subprocess.Popen(
            [*self._python, "-m", "patchyard", *arguments],
            cwd=self.repo,
            env={**self.environ, **further},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
            start_new_session=True,
        )

    def _here(self, words: Sequence[str], further: Mapping[str, str]) -> Answer:
        out, err = _Stream(), _Stream()
        with (
            _environment({**self.environ, **further}),
            contextlib.chdir(self.repo),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = _call(words)
        return Answer(code=code, out=out.content, err=err.content.decode())

    def clear(self) -> None:
        """Unmount what plans have mounted below this folder."""
        mounted = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
        places = [line.split(" ")[4] for line in mounted]
        for place in sorted(places, reverse=True):
            if place.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)


class _Stream(io.TextIOWrapper):
    """A standard stream that keeps the bytes."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes, encoding="utf-8", errors="surrogateescape")

    @property
    def content(self) -> bytes:
        self.flush()
        return self._bytes.getvalue()


def _call(words: Sequence[str]) -> int:
    try:
        code = command.main(args=list(words), prog_name="agents", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return 2
    return code if isinstance(code, int) else 0


@contextlib.contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(wanted)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def shell(text: str, *, timeout_s: float = LONGEST_S) -> dict[str, Any]:
    """One reply: run a shell command."""
    return call("execute_command", command=text, timeout_s=timeout_s)


def write(path: str, content: str) -> dict[str, Any]:
    """One reply: write a file."""
    return call("write_file", path=path, content=content)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """One reply: one call."""
    return {"calls": [{"name": name, "arguments": arguments}]}


def finish(summary: str = "done") -> dict[str, Any]:
    """The last reply."""
    return {"finish": summary}


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    """Run the user's own git there."""
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", *arguments],
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=LONGEST_S,
    )
    assert done.returncode == 0 or not check, done.stderr.decode()
    return os.fsdecode(done.stdout)


def bits(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that must not change while a plan works: kinds, modes, times, contents, `.git` too."""
    found: dict[str, tuple[object, ...]] = {}
    for at, folders, names in os.walk(folder):
        for name in (".", *folders, *names):
            place = Path(at, name)
            status = place.lstat()
            content = _content(place, status)
            found[str(place.relative_to(folder))] = (
                *(status.st_mode, status.st_uid, status.st_gid, status.st_nlink, status.st_ino),
                *(status.st_size, status.st_mtime_ns, status.st_ctime_ns, content),
            )
    return found


def _content(place: Path, status: os.stat_result) -> bytes:
    if stat.S_ISLNK(status.st_mode):
        return os.fsencode(place.readlink())
    if not stat.S_ISREG(status.st_mode) or status.st_size > 10_000_000:
        return b""
    return place.read_bytes()


class Waiting:
    """A plan that stops in the middle of a call of one phase until it is released."""

    def __init__(self, desk: Desk, phase: str, work: str = "echo done > result") -> None:
        self._desk = desk
        pause = shell("while ! test -e .git/go; do sleep 0.02; done", timeout_s=LONGEST_S)
        replies = {"strategize": [finish("a plan")], "execute": [shell(work), finish()]}
        replies[phase] = [pause, *replies[phase]]
        place = desk.folder / "waiting.json"
        place.write_text(json.dumps({"note": "written by hand", **replies}))
        self.model = f"scripted:{place}"
        self._words = ["run", "a task", "--model", self.model, "--format", "json"]

    def start(self) -> subprocess.Popen[bytes]:
        """Start the plan and return when it waits."""
        process = self._desk.start(*self._words, "--stream")
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("event") == "ToolCallRequested":
                return process
        raise AssertionError(ended(process)[1].decode())

    @contextlib.contextmanager
    def released(self, *, once: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Let it go on once that is so, also where its call is made anew in a later tree."""
        is_over = threading.Event()

        def release() -> None:
            while not is_over.wait(0.05):
                with contextlib.suppress(OSError):  # a tree that goes meanwhile
                    if once():
                        self.release()

        thread = threading.Thread(target=release)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def release(self) -> None:
        """Let it go on, where there is still something that waits."""
        for root in (self._desk.folder / "workspaces/tasks").glob("*/root"):
            if (root / ".git").is_dir():
                (root / ".git/go").touch()
