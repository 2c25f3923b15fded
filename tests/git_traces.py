"""What git really ran: each process of it, those that git starts included, with its place."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Ran", "traced", "what_ran"]

PLACES = ("GIT_COMMON_DIR", "GIT_DIR", "GIT_WORK_TREE", "PWD")


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One process of git."""

    words: tuple[str, ...]  # as it was called, less our settings
    places: Mapping[str, str]  # PLACES that were set
    work_tree: str  # that it found or was given; empty for none
    above: str  # the command of the git that started it; empty for ours
    started: tuple[str, ...]  # the programs that it started itself

    @property
    def command(self) -> str:
        """Its name, such as update-ref."""
        return self.words[0]


def traced(folder: Path) -> str:
    """Put a git into a folder that writes down what runs, and return a PATH that finds it first."""
    real = shutil.which("git")
    records, programs = folder / "trace", folder / "bin"
    records.mkdir()
    records.chmod(0o777)
    programs.mkdir()
    (programs / "git").write_text(
        "#!/bin/sh\nPWD=$(pwd)\nexport PWD\n"
        f'GIT_TRACE2_ENV_VARS={",".join(PLACES)} GIT_TRACE2_EVENT={records} exec {real} "$@"\n'
    )
    (programs / "git").chmod(0o755)
    return f"{programs}{os.pathsep}{os.environ['PATH']}"


def what_ran(folder: Path) -> list[Ran]:
    """Return every process of git that was written down below `folder`.

    One that was killed before it said what it was called for has done nothing, and is left out.
    """
    records = [
        [json.loads(line) for line in place.read_text("utf-8").splitlines()]
        for place in (folder / "trace").iterdir()
    ]
    begun = [events for events in records if any(each["event"] == "start" for each in events)]
    by_sid = {events[0]["sid"]: _words(events) for events in begun}
    return [_ran(events, by_sid) for events in begun]


def _ran(events: Sequence[Mapping[str, object]], by_sid: Mapping[str, tuple[str, ...]]) -> Ran:
    above = str(events[0]["sid"]).rpartition("/")[0]
    repositories = [str(each["worktree"]) for each in events if each["event"] == "def_repo"]
    return Ran(
        words=_words(events),
        work_tree=repositories[-1] if repositories else "",
        places={
            str(each["param"]): str(each["value"])
            for each in events
            if each["event"] == "def_param" and each["param"] in PLACES
        },
        above=by_sid[above][0] if above else "",
        started=tuple(_program(each) for each in events if each["event"] == "child_start"),
    )


def _program(event: Mapping[str, object]) -> str:
    argv = event["argv"]
    assert isinstance(argv, list)
    words = " ".join(str(word) for word in argv).split()  # a shell's are one word
    return f"git {next(_said(iter(words)))}" if words[0] == "git" else words[0]


def _words(events: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the command with its arguments, without what is said to git itself."""
    argv = next(each["argv"] for each in events if each["event"] == "start")
    assert isinstance(argv, list)
    words = _said(iter([str(word) for word in argv]))
    return tuple(words)


def _said(argv: Iterator[str]) -> Iterator[str]:
    program = next(argv).rpartition("/")[2]
    if program != "git":
        yield program.removeprefix("git-")
        yield from argv
        return
    for word in argv:
        if word == "-c":
            next(argv)
        elif not word.startswith("-"):
            yield word
            yield from argv
            return
    yield "git"
