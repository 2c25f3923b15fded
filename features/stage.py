"""What the scenarios stand on: a user with a checkout, an empty home and the command line.

Behave and Robot Framework share it. It knows no scenario, and nothing of the engine's inside.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from surroundings import cleaned, home  # noqa: E402 - it lies beside the other scripts

LONGEST_S = 300  # of one command, which may begin a virtual machine

#: Runs commands, each a list of words, until one does not exit with 0.
_SEVERAL = """
import json, sys
from patchyard.cli.main import agents
for words in json.load(sys.stdin):
    if code := agents.main(words, prog_name="agents", standalone_mode=False):
        sys.exit(f"{words} exits with {code}")
"""

__all__ = ["LONGEST_S", "Said", "Stage", "call", "finish"]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A scripted reply that makes one call."""
    return {"calls": [{"name": name, "arguments": arguments}]}


def finish(summary: str) -> dict[str, Any]:
    """The scripted reply that ends a phase."""
    return {"finish": summary}


@dataclass(frozen=True, kw_only=True)
class Said:
    """What one command answered."""

    words: tuple[str, ...]
    exit_code: int
    out: str
    err: str

    @property
    def body(self) -> dict[str, Any]:
        """The object of `--format json`; under `--stream` the last line."""
        text = self.out.strip()
        if "--stream" in self.words:
            text = text.splitlines()[-1] if text else ""
        if not text:
            raise AssertionError(f"{self.words} said nothing; on standard error: {self.err}")
        body: dict[str, Any] = json.loads(text)
        return body

    @property
    def data(self) -> dict[str, Any]:
        """The data of the answer."""
        data: dict[str, Any] = self.body["data"]
        return data

    @property
    def streamed(self) -> list[dict[str, Any]]:
        """The events before the last line."""
        return [json.loads(line) for line in self.out.strip().splitlines()[:-1]]


class Stage:
    """One scenario's home, repository and answers."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="patchyard-stage-"))
        (self.folder / "tmp").mkdir()
        self.folder.chmod(0o755)  # on `host` the agent's own user has to reach its workspace
        self.repository = self.folder / "repo"
        # The PATCHYARD_HOME of the suite is one for all scenarios; here each has its own.
        self.environment = {
            **cleaned(os.environ),
            **home(self.folder / "home"),
            "WORKSPACE_DIR": str(self.folder / "workspaces"),
            "TMPDIR": str(self.folder / "tmp"),
        }
        self._prepared: list[list[str]] = []
        self.said = Said(words=(), exit_code=-1, out="", err="")
        self.prints: dict[str, str] = {}

    def close(self) -> None:
        """Remove everything, mounts that a failed scenario left included."""
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
        for place in reversed([line.split()[1] for line in mounts]):
            if place.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def git(self, *words: str) -> str:
        """Run git in the checkout and return what it printed."""
        command = ["git", *words]
        run = subprocess.run(
            command,
            cwd=self.repository,
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return run.stdout.strip()

    def commit(self, files: Mapping[str, str]) -> None:
        """Write files and commit them, in a new repository at the first time."""
        if not self.repository.exists():
            self.repository.mkdir()
            self.git("init", "--quiet", "--initial-branch", "main")
        for name, text in files.items():
            path = self.repository / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "test: a state to start from")

    def agents(self, *words: str, typed: str = "") -> Said:
        """Run one command in the checkout; its answer is the one that `said` holds."""
        self.said = self._run(*words, typed=typed)
        return self.said

    def shell(self, line: str) -> Said:
        """Run a line as a user types it, with `agents` as it is installed."""
        self.said = self._called(["sh", "-c", line], tuple(line.split()))
        return self.said

    def _run(self, *words: str, typed: str = "") -> Said:
        return self._called([sys.executable, "-m", "patchyard", *words], words, typed)

    def _called(self, command: list[str], words: tuple[str, ...], typed: str = "") -> Said:
        if self._prepared:
            self.say_prepared()
        run = subprocess.run(
            command,
            cwd=self.repository,
            env=self.environment,
            check=False,
            input=typed,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
        return Said(words=words, exit_code=run.returncode, out=run.stdout, err=run.stderr)

    def ask(self, *words: str) -> Said:
        """Run one command and have its answer as JSON."""
        return self.agents(*words, "--format", "json")

    def told(self, *words: str) -> Said:
        """Run one command that has to work, and leave `said` as it is."""
        said = self._run(*words, "--format", "json")
        if said.exit_code != 0:
            raise AssertionError(f"{words} exits with {said.exit_code}: {said.out}{said.err}")
        return said

    def prepare(self, *lines: Sequence[str]) -> None:
        """Have commands said, in one process, before the next one: no scenario's own matter."""
        for words in lines:
            self._prepared.append(list(words))

    def say_prepared(self) -> None:
        """Say what was prepared and not said yet."""
        lines, self._prepared = self._prepared, []
        run = subprocess.run(
            [sys.executable, "-c", _SEVERAL],
            cwd=self.repository,
            env=self.environment,
            check=False,
            input=json.dumps(lines),
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
        if run.returncode != 0:
            raise AssertionError(f"{lines}: {run.stdout}{run.stderr}")

    def script(
        self,
        *execute: Mapping[str, Any],
        strategize: Sequence[Mapping[str, Any]] = (),
        name: str = "script",
    ) -> str:
        """Write a scripted conversation and return the name of its model."""
        body: dict[str, Any] = {"note": "written by hand", "execute": list(execute)}
        if strategize:
            body["strategize"] = list(strategize)
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(body), encoding="utf-8")
        return f"scripted:{path}"

    def keep_action(self, name: str, body: Mapping[str, Any]) -> None:
        """Create an action; JSON is YAML too."""
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({"name": name, **body}), encoding="utf-8")
        self.prepare(("action", "create", "--file", str(path)))

    def keep_project(self, name: str) -> None:
        """Make a project of the checkout with nothing set."""
        self.prepare(
            ("project", "create", name),
            ("project", "context", "set", name, "execution_environment", "unset"),
        )

    def status(self) -> dict[str, Any]:
        """The newest plan, as another process sees it."""
        return self.told("plan", "status").data

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        """The newest plan's events, or those of one kind."""
        events: list[dict[str, Any]] = self.told("plan", "events").data["events"]
        return [event for event in events if not kind or event["event"] == kind]

    def fingerprint(self) -> str:
        """What the checkout is, to the bit: names, modes, times and content, `.git` included."""
        digest = hashlib.sha256()
        for path in sorted(_below(self.repository)):
            facts = path.lstat()
            name = path.relative_to(self.repository)
            digest.update(f"{name}\0{facts.st_mode:o}\0{facts.st_mtime_ns}\0".encode())
            if path.is_symlink():
                digest.update(os.fsencode(path.readlink()))
            elif path.is_file():
                digest.update(path.read_bytes())
        return digest.hexdigest()


def _below(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)
