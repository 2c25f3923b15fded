"""Makes a home with plans in each state by one version of Patchyard, which later ones must read.

`home_of_version.py VERSION AGENTS` packs two, as tests/homes/VERSION-root.tar.xz and
VERSION-ordinary.tar.xz; AGENTS is the path of that version's command, which every user can start.
It uses only what the command line of every version has. To be run as root.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fixed_place import PLACE, showing
from tree import ROOT

__all__ = ["ENVIRONMENT", "FILES", "HOMES"]

HOMES = ROOT / "tests" / "homes"
NOBODY = 65534
#: What a later version makes anew, or git does not read.
LEFT_OUT = ("*.sock", "__pycache__", "*.sample", "./home/ballast")
LONGEST_S = 120.0
KILLED_AFTER_S = 0.4  # so that the call in flight has written something
WAITED_S = 60  # by the call that is killed; made anew later it does not wait

FILES = {
    "stock.py": (
        "def pages(items, size):\n"
        "    return [items[i : i + size] for i in range(0, len(items) - size, size)]\n"
    ),
    "check.py": "from stock import pages\nassert pages([1, 2, 3], 2) == [[1, 2], [3]]\n",
    "README": "A shop.\n",
}


def _shell(command: str) -> dict[str, Any]:
    return {"calls": [{"name": "execute_command", "arguments": {"command": command}}]}


def _edit(path: str, old: str, new: str) -> dict[str, Any]:
    words = {"path": path, "old_string": old, "new_string": new}
    return {"calls": [{"name": "search_replace", "arguments": words}]}


LOOK = [_shell("python3 check.py; ls"), {"finish": "It can be done."}]
DONE = {"finish": "It is done."}
SCRIPTS: Mapping[str, Mapping[str, Any]] = {
    "ended": {"strategize": LOOK, "execute": [_edit("README", "A shop", "A big shop"), DONE]},
    "made": {"strategize": LOOK, "execute": [_shell("echo made >made.txt"), DONE]},
    "waits": {"strategize": LOOK, "execute": [_shell("echo waited >waited.txt"), DONE]},
    "fails": {"strategize": LOOK, "execute": [_shell("echo tried >tried.txt")]},
    "handed": {
        "strategize": LOOK,
        "execute": [_edit("stock.py", "len(items) - size", "len(items)"), DONE],
    },
    "stopped": {
        "strategize": LOOK,
        "execute": [
            _shell("echo step-1 >>steps.txt; rm README"),
            _shell("echo step-2 >>steps.txt; mkdir made; echo new >made/new.txt"),
            _shell("echo step-3 >>steps.txt; test $(date +%s) -gt UNTIL || sleep 9"),
            _shell("echo step-4 >>steps.txt"),
            DONE,
        ],
    },
}
ACTION = """\
name: greet
description: Let the README greet
arguments:
  who: {required: true, description: whom to greet}
steps:
  - replace: {files: README, pattern: "shop", with: "shop, {who}", required: true}
"""
ENVIRONMENT = {
    **{
        f"GIT_{role}_{name}": value
        for role in ("AUTHOR", "COMMITTER")
        for name, value in {
            "NAME": "Ada",
            "EMAIL": "ada@example.invalid",
            "DATE": "2026-01-02T03:04:05Z",
        }.items()
    },
    "HOME": f"{PLACE}/user",
    "PATCHYARD_HOME": f"{PLACE}/home",
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "LANG": "C.UTF-8",
}
"""The variables of all commands that see the home."""


class Stage:
    """A new home and a repository, shown at PLACE to each command."""

    def __init__(self, folder: Path, agents: str, user: int) -> None:
        self._folder = folder
        self._agents = agents
        self._user = user
        self.ids: dict[str, str] = {}

    def git(self, *words: str) -> None:
        """Run git in the repository."""
        self._run("git", *words).check_returncode()

    def answered(self, *words: str) -> Any:
        """Run `agents` for data; its exit code may be any."""
        done = self._run(self._agents, *words, "--format", "json")
        try:
            return json.loads(done.stdout)
        except ValueError:
            sys.exit(f"{words}: {done.stdout}{done.stderr}")

    def plan(self, name: str, *options: str) -> None:
        """Run a plan by the script of that name."""
        said = self.answered("run", f"a plan that is {name}", *_model(name), *options)
        self.ids[name] = said["data"]["plan_id"]

    def killed(self, name: str, call: int) -> None:
        """Run a plan until its call of that number is at work; then kill all of its processes."""
        words = ["run", f"a plan that is {name}", *_model(name), "--format", "json", "--stream"]
        with self._started(self._agents, *words) as process:
            for event in map(json.loads, process.stdout or ()):
                call -= event.get("event") == "ToolCallRequested"
                if not call:
                    time.sleep(KILLED_AFTER_S)
                    process.kill()
                    break

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        with self._started(*words) as process:
            out, err = process.communicate(timeout=LONGEST_S)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def _started(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            showing(self._folder, words, user=self._user),
            user=self._user, group=self._user, extra_groups=[], cwd="/", env=ENVIRONMENT,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


def _model(name: str) -> tuple[str, str]:
    return ("--model", f"scripted:{PLACE}/scripts/{name}.yaml")


def make(folder: Path, agents: str, user: int) -> None:
    """Make the home, the repository and what that version says of them in an empty folder."""
    for name in ("home", "lib", "repo", "scripts", "user"):
        (folder / name).mkdir(mode=0o700 if name == "home" else 0o711)
    for name, text in FILES.items():
        (folder / "repo" / name).write_text(text)
    until = str(int(time.time()) + WAITED_S)
    for name, script in SCRIPTS.items():
        text = json.dumps(script).replace("UNTIL", until)
        (folder / "scripts" / f"{name}.yaml").write_text(text)
    (folder / "scripts" / "greet.yaml").write_text(ACTION)
    subprocess.run(["chown", "-R", f"{user}:{user}", folder], check=True)
    stage = Stage(folder, agents, user)
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "feat: count"]):
        stage.git(*words)
    _fill(stage)
    with tempfile.TemporaryDirectory(prefix="patchyard-fixture-") as copies:
        copy = Path(copies) / "copy"
        subprocess.run(["cp", "--archive", folder, copy], check=True)
        Path(copies).chmod(0o755)
        said = told(Stage(copy, agents, user), stage.ids)
    (folder / "told.json").write_text(json.dumps(said, indent=1))


def told(stage: Stage, plans: Mapping[str, str]) -> Mapping[str, Any]:
    """Return what the version itself says of its plans: for a copy, which it may write to."""
    stopped = stage.answered("plan", "status", "@last")["data"]["plan_id"]
    return {
        name: stage.answered("plan", "status", plan_id)["data"]
        for name, plan_id in [*plans.items(), ("stopped", stopped)]
    }


def _fill(stage: Stage) -> None:
    stage.answered("project", "create", "shop")
    stage.answered("action", "create", "--file", f"{PLACE}/scripts/greet.yaml")
    stage.answered("resource", "add", "directory", "words", "--path", f"{PLACE}/scripts")
    stage.answered("invariant", "add", "it stays small", "--project", "shop", "--check", "true")
    stage.plan("ended", "--validate", "test -s README")
    stage.plan("made", "--automation-profile", "manual")
    stage.plan("waits", "--automation-profile", "supervised")
    stage.plan("fails")
    stage.plan("handed", "--validate", "python3 check.py", "--apply", "worktree")
    stage.killed("stopped", call=1 + 3)


def pack(folder: Path, to: Path) -> None:
    """Pack a folder with the marks that an overlay leaves on files."""
    to.parent.mkdir(exist_ok=True)
    words = ["tar", "--xattrs", "--xattrs-include=*", "--numeric-owner", "--sort=name", "--xz"]
    words += [f"--exclude={name}" for name in LEFT_OUT]
    subprocess.run([*words, "-cf", to, "-C", folder, "."], check=True)


def main() -> None:
    """Make and pack the home of each user."""
    version, agents = sys.argv[1:]
    for name, user in (("root", 0), ("ordinary", NOBODY)):
        folder = Path(tempfile.mkdtemp(prefix="patchyard-fixture-"))
        folder.chmod(0o755)
        make(folder, agents, user)
        pack(folder, HOMES / f"{version}-{name}.tar.xz")
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
