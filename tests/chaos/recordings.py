"""Commands of the engine on a disk that logs its writes, and what each had acknowledged by when."""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chaos.disks import Machine, machine
from chaos.logged_file import logged_file
from endings import LONGEST_S

__all__ = [
    "FILES",
    "PATCH",
    "Answer",
    "Command",
    "Recorded",
    "Recording",
    "Seen",
    "answer",
    "git",
    "record",
    "seen",
]

FILES = {"README": "a repository\n", "old/one.txt": "one\n", "old/two.txt": "two\n"}
STREAMED = {"run", "resume", "apply"}
PATCH = "handed.patch"


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command of the sequence."""

    name: str
    words: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_streamed(self) -> bool:
        return not STREAMED.isdisjoint(self.words[:2])


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The user's repository from outside: what hand-overs write, by content."""

    files: Mapping[str, bytes]  # of the work tree
    refs: Mapping[str, str]  # and the tree of each
    commits: Mapping[str, str]
    head: str
    status: str
    patch: bytes | None

    def differences(self, other: "Seen", *, is_exact: bool) -> list[str]:
        """Say in what another one differs; commits of the same trees are other ones by their time.

        `is_exact`: they are the same ones.
        """
        names = ["files", "refs", "head", "status", "patch", *(["commits"] if is_exact else ())]
        return [
            f"{name}: {getattr(other, name)!r}, wanted {getattr(self, name)!r}"
            for name in names
            if getattr(self, name) != getattr(other, name)
        ]

    def neither(self, before: "Seen", after: "Seen") -> list[str]:
        """Say what is here neither as it was before nor as it is after."""
        found: list[str] = []
        for name in ("files", "refs"):
            here, old, new = (getattr(each, name) for each in (self, before, after))
            found += [
                f"{name}: {key} is {here.get(key)!r}"
                for key in sorted({*here, *old, *new})
                if here.get(key) not in (old.get(key), new.get(key))
            ]
        if self.patch not in (before.patch, after.patch):
            found.append(f"the patch is {self.patch!r}")
        return found


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command said; each with the position of the log when it was read."""

    told: Sequence[tuple[int, Mapping[str, Any]]]
    end: Mapping[str, Any]  # the last object
    at: int


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A command that was recorded, and what was there after it."""

    command: Command
    begin: int  # the position of the log
    answer: Answer
    after: Seen


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The disk as it was before the first command, and all that was done to it."""

    folder: Path
    image: Path
    log: Path
    first: Seen
    commands: Sequence[Recorded]


def git(repository: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = ["git", "--no-optional-locks", "-C", str(repository), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def seen(yard: Path) -> Seen:
    """Look at the user's repository, writing nothing."""
    repository, patch = yard / "repo", yard / PATCH
    form = "--format=%(refname) %(objectname) %(tree)"
    lines = [line.split(" ") for line in git(repository, "for-each-ref", form).stdout.splitlines()]
    files = {
        str(path.relative_to(repository)): path.read_bytes()
        for path in sorted(repository.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(repository).parts
    }
    return Seen(
        files=files,
        refs={name: tree for name, _, tree in lines},
        commits={name: commit for name, commit, _ in lines},
        head=git(repository, "symbolic-ref", "HEAD").stdout,
        status=git(repository, "status", "--porcelain").stdout,
        patch=patch.read_bytes() if patch.exists() else None,
    )


def answer(here: Machine, command: Command, log: Path | None = None) -> Answer:
    """Run a command to its end, noting how long the log was when each line of it was read."""
    stream = ("--stream",) if command.is_streamed else ()
    process = here.agents(*command.words, *stream, "--format", "json", **command.variables)
    assert process.stdout is not None
    assert process.stderr is not None
    watchdog = threading.Timer(LONGEST_S, process.kill)
    watchdog.start()
    told: list[tuple[int, Mapping[str, Any]]] = []
    body, at = "", 0
    with process:
        for line in process.stdout:
            at = log.stat().st_size if log is not None else 0
            body += line.decode()
            if command.is_streamed:
                told.append((at, json.loads(line)))
        err = process.stderr.read().decode()
    watchdog.cancel()
    assert body, (command, err)
    return Answer(told=told, end=told[-1][1] if told else json.loads(body), at=at)


@contextmanager
def logging(folder: Path, script: str, options: str) -> Iterator[tuple[Machine, Path, Path]]:
    """A machine on a disk that logs, holding a repository and a script; with base and log.

    Mount namespaces of others may hold its mounts for longer: what was cut writes no more.
    """
    base, image, log = (folder / name for name in ("base", "image", "log"))
    with machine(folder, list(FILES.items())) as made:
        (made.yard / "script.json").write_text(script)
        subprocess.run(["sync", "--file-system", made.yard], check=True)
        made.cut()
        for copy in (base, image):
            subprocess.run(["cp", "--sparse=always", folder / "disk.ext4", copy], check=True)
    with logged_file(image, log, folder / "disk"):
        here = Machine(folder / "disk", made.yard, options=options)
        here.start()
        try:
            yield here, base, log
        finally:
            here.cut()


def record(
    folder: Path,
    script: str,
    commands: Sequence[Command],
    variables: Mapping[str, str] | None = None,
    options: str = "",
) -> Recording:
    """Run the commands one after the other, on an ext4 mounted with `options`.

    `{checkpoint}` in a command is the plan's second.
    """
    fields = {"checkpoint": ""}
    made: list[Recorded] = []
    with logging(folder, script, options) as (here, base, log):
        first = seen(here.yard)
        for each in commands:
            words = tuple(word.format(yard=here.yard, **fields) for word in each.words)
            command = replace(each, words=words, variables={**(variables or {}), **each.variables})
            begin = log.stat().st_size
            said = answer(here, command, log)
            assert said.end["exit_code"] == 0, said.end["error"]
            if each.name == "run":
                fields["checkpoint"] = said.end["data"]["execution"]["checkpoints"][1][
                    "checkpoint_id"
                ]
            after = seen(here.yard)
            command = replace(command, variables=each.variables)
            made.append(Recorded(command=command, begin=begin, answer=said, after=after))
    return Recording(folder=folder, image=base, log=log, first=first, commands=made)
