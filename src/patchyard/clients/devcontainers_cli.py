"""The official devcontainers CLI, which turns features into builds; it builds nothing itself.

It works behind walls of its own (`cli_walls`), on a copy of the base's own files, and sees a
`docker` of ours, which knows one image and writes down what it is asked to build. So it needs no
engine, and builds keep the engine's walls. What it leaves is a claim.
"""

import asyncio
import contextlib
import hashlib
import io
import json
import os
import posixpath
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchyard.clients.berths import Pipe, read_child_pid
from patchyard.clients.bubblewrap import INFO_FD, INFO_READER_FD, find_bubblewrap
from patchyard.clients.cli_walls import (
    GIVEN,
    MADE,
    Walls,
    outside,
    own_folders,
    variables_of,
    walled,
)
from patchyard.clients.deaths import FREE_MEMORY, death
from patchyard.clients.obstacles import diagnose, read_obstacles
from patchyard.clients.process import ProcessRef, identify, kill, kill_while_starting
from patchyard.clients.reader import NotPlain, plain_file
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable, UsageError
from patchyard.domain.features import HOME, INHERITED, METADATA, Extension, is_name
from patchyard.domain.jsonc import parse_jsonc
from patchyard.toolbox.spawning import spawn_detached
from patchyard.toolbox.wire import loaded

PROGRAM = "devcontainer"
INSTALL = "npm install -g @devcontainers/cli"
METADATA_LABEL = "devcontainer.metadata"
ASKED_AS = "patchyard-features"  # what it is to call the image
CLI_S = 600.0  # to fetch features, and to say how they are built
OUTPUT_CHARS = 8000  # kept of one that failed
CAUSE_CHARS = 1000
LOCKS = ("devcontainer-lock.json", ".devcontainer-lock.json")  # beside a devcontainer.json
SAID_BYTES = 1024 * 1024  # of what it leaves, in one file
CONTEXT_BYTES = 2 * 1024**3  # of what one build takes; a file with holes may say any size
WORK = "work"  # the repository's own features, and the devcontainer.json
LOOK = "look at the features that devcontainer.json names, and what those name"
REFUSED = "bwrap: "  # begins what bubblewrap says where it starts nothing

DOCKER = f"""\
#!/bin/sh
# Stands in for `docker`: knows one image, and writes down what is to be built.
case $1 in
  -v) echo "Docker version 20.10.0" ;;
  version) echo 20.10.0 ;;
  inspect) cat {GIVEN}/image.json ;;
  build)
    number=$(ls {MADE}/calls | wc -l)
    printf '%s\\0' "$@" >"{MADE}/calls/$number" ;;
  *) echo "docker $* is not done here" >&2; exit 1 ;;
esac
"""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One build that the CLI asks for."""

    tag: str
    dockerfile: Path
    context: Path  # folder
    arguments: Mapping[str, str]
    target: str  # stage; empty: the last


@dataclass(frozen=True, kw_only=True)
class Extending:
    """What is to be installed, and on what."""

    config: str  # path of the devcontainer.json, relative to the repository's top
    image: str  # the image that is extended
    known: Mapping[str, Any]  # what the engine knows of that image
    extension: Extension
    archive: Path | None  # tar of the base's .devcontainer; None: there is none


def find_cli(environ: Mapping[str, str]) -> str:
    """Return the path of the CLI. Raises EnvironmentUnavailable."""
    found = shutil.which(PROGRAM, path=environ.get("PATH"))
    if found is None:
        raise EnvironmentUnavailable(
            "the devcontainers CLI is not installed, and features are installed by it",
            hint=f"{INSTALL}; or build them into the image that devcontainer.json names",
        )
    return found


async def steps_for(asked: Extending, folder: Path, environ: Mapping[str, str]) -> Sequence[Step]:
    """Return the builds that install features, the last one of the whole image.

    All of it lies in `folder`, an empty one of the caller's that nobody else may enter. Raises
    EnvironmentUnavailable with the CLI's last words.
    """
    walls = Walls(
        program=find_cli(environ),
        given=folder / "given",
        made=folder / "made",
        is_fetching=asked.extension.is_fetching,
        environ=environ,
    )
    _require_bubblewrap()
    await asyncio.to_thread(_prepare, asked, walls)
    words = (
        *("build", "--workspace-folder", f"{MADE}/{WORK}"),
        *("--config", f"{MADE}/{WORK}/{asked.config}", "--image-name", ASKED_AS),
        *("--buildkit", "never", "--docker-path", f"{GIVEN}/docker"),
        *("--user-data-folder", f"{MADE}/data"),
    )
    await _run(walls, words, folder / "output")
    steps = await asyncio.to_thread(_steps, walls)
    if not steps or steps[-1].tag != ASKED_AS:
        raise EnvironmentUnavailable(
            "the devcontainers CLI did not say how the features are built", hint=INSTALL
        )
    return steps


def _require_bubblewrap() -> None:
    try:
        find_bubblewrap()
    except EnvironmentUnavailable as error:
        raise EnvironmentUnavailable(
            f"features are installed by a program that only runs behind walls: {error.message}",
            hint=f"{error.hint}; or build them into the image that devcontainer.json names",
        ) from error


def _prepare(asked: Extending, walls: Walls) -> None:
    for name in ("calls", "data", "home", "tmp", f"{WORK}/{HOME}"):
        (walls.made / name).mkdir(parents=True)
    walls.given.mkdir()
    if asked.archive is not None:
        _unpack(asked, asked.archive, walls.made / WORK)
    config = walls.made / WORK / asked.config
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps({**loaded(asked.extension.text), "image": asked.image}))
    (walls.given / "image.json").write_text(json.dumps([_without_metadata(asked.known)]))
    (walls.given / "docker").write_text(DOCKER)
    (walls.given / "docker").chmod(0o755)
    own_folders(walls)


def _unpack(asked: Extending, archive: Path, into: Path) -> None:
    """Write the features and the lock file of a tar of ours, which holds names as git has them.

    Raises EnvironmentUnavailable for a link, which the CLI would follow to anywhere, and for what
    asks for something else than when the plan was made.
    """
    locks = {posixpath.join(posixpath.dirname(asked.config), name) for name in LOCKS}
    folders = tuple(f"{folder}/" for folder in asked.extension.folders)
    with tarfile.open(archive) as members:
        for member in members:
            path = f"{HOME}/{member.name}"
            if member.isdir() or not (path.startswith(folders) or path in locks):
                continue
            if not member.isfile():
                raise EnvironmentUnavailable(
                    f"{path} is a link, and features are made of plain files here",
                    hint="put the file itself there",
                )
            _write(members, member, into / path)
    for path, digest in asked.extension.metadata.items():
        found = into / path
        if not found.is_file() or hashlib.sha256(found.read_bytes()).hexdigest() != digest:
            raise EnvironmentUnavailable(
                f"{path} has changed since the plan was made", hint="plan the task again"
            )


def _write(members: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    content = members.extractfile(member)
    assert content is not None  # noqa: S101 - a plain file has one
    with content, place.open("xb") as written:
        shutil.copyfileobj(content, written)
    place.chmod(0o755 if member.mode & 0o100 else 0o644)


def _without_metadata(known: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is known of an image, without what it asks of its container itself."""
    config = known.get("Config") or {}
    labels = config.get("Labels") or {}
    own = {name: value for name, value in labels.items() if name != METADATA_LABEL}
    return {**known, "Config": {**config, "Labels": own}}


async def _run(walls: Walls, words: Sequence[str], output: Path) -> None:
    """Let the CLI do its work; all that it started ends with this."""
    with contextlib.ExitStack() as stack:
        report = Pipe(stack)
        monitor = _started(walls, words, output, report)
        ended = asyncio.create_task(asyncio.to_thread(os.waitpid, monitor, 0))
        init: ProcessRef | None = None
        try:
            async with asyncio.timeout(CLI_S):
                with contextlib.suppress(EnvironmentBroken):  # it has ended, or did not begin
                    init = identify(await read_child_pid(report.reading))
                _, status = await asyncio.shield(ended)
        except TimeoutError as error:
            raise EnvironmentUnavailable(
                f"the devcontainers CLI was not done within {CLI_S:g} s",
                hint="look whether this machine reaches the registry of the features",
            ) from error
        finally:
            if not ended.done():
                _end(monitor, init)
                await ended
    code = os.waitstatus_to_exitcode(status)
    if words := death(code):
        raise EnvironmentUnavailable(f"the devcontainers CLI {words}", hint=FREE_MEMORY)
    if code != 0:
        raise _failed(await asyncio.to_thread(_said_in, output))


def _end(monitor: int, init: ProcessRef | None) -> None:
    """Kill PID 1 of its namespace, and so all in it; bubblewrap outside ends then."""
    if init is not None:
        kill(init)
    elif (starting := identify(monitor)) is not None:
        kill_while_starting(starting)


def _said_in(output: Path) -> str:
    """Return what it said, of much the beginning and the end."""
    with output.open("rb") as file:
        said = file.read(SAID_BYTES)
        if (left := output.stat().st_size - SAID_BYTES) > 0:
            file.seek(-min(left, SAID_BYTES), os.SEEK_END)
            said += b"\n[...]\n" + file.read(SAID_BYTES)
    return said.decode("utf-8", errors="replace")


def _failed(text: str) -> EnvironmentUnavailable:
    if text.startswith(REFUSED):
        found = diagnose(text, read_obstacles())
        return EnvironmentUnavailable(
            f"features are installed behind walls, which do not stand here: {found.cause}",
            hint=found.cure,
        )
    return EnvironmentUnavailable(
        f"the devcontainers CLI cannot install the features: {_cause(text)[:CAUSE_CHARS]}",
        hint="`agents plan errors` shows its last words; features that lie elsewhere need a"
        " network that reaches them",
        details={"output": text[-OUTPUT_CHARS:]},
    )


def _started(walls: Walls, words: Sequence[str], output: Path, report: Pipe) -> int:
    """Start it without a moment in which a cancelled caller could not end it; return its PID."""
    with walled(walls, words) as prepared, output.open("wb") as written:
        pid = spawn_detached(
            prepared.argv,
            env=variables_of(walls),
            descriptors={
                **prepared.descriptors,
                INFO_FD: report.writing,
                INFO_READER_FD: report.reading,
                1: written.fileno(),
                2: written.fileno(),
            },
        )
    report.close_writing()
    return pid


def _cause(text: str) -> str:
    """Return what the CLI says of its end: a line of JSON among others."""
    lines = text.strip().splitlines()
    for line in reversed(lines):
        with contextlib.suppress(ValueError, AttributeError, RecursionError):
            return str(loaded(line).get("message") or line)
    return lines[-1] if lines else "it said nothing"


def _steps(walls: Walls) -> Sequence[Step]:
    """Return what it asked for. Raises EnvironmentUnavailable for what is not its own to say."""
    calls = sorted(outside(walls, f"{MADE}/calls").iterdir(), key=lambda call: call.name.zfill(9))
    steps = [_step(_read(call).split("\0")[1:-1], walls) for call in calls]
    for path in walls.made.rglob(METADATA):
        if not path.is_relative_to(walls.made / WORK):  # the repository's own were looked at
            _require_name(path)
    return steps


def _read(path: Path) -> str:
    """Return a file that the CLI left; no link, and nothing to wait at or without end."""
    try:
        with plain_file(path) as (descriptor, status):
            content = os.read(descriptor, SAID_BYTES + 1)
    except (OSError, NotPlain):
        status = None
    if status is None or status.st_size > SAID_BYTES:
        raise EnvironmentUnavailable(
            f"the devcontainers CLI left no plain file as {path.name}", hint=INSTALL
        )
    return content.decode("utf-8", "replace")


def _require_name(path: Path) -> None:
    """Refuse a feature, a fetched one too, whose name could be more than that in a build."""
    try:
        body = parse_jsonc(_read(path), name=METADATA)
    except UsageError as error:
        raise EnvironmentUnavailable(error.message, hint=LOOK) from error
    named = body.get("id", "own") if isinstance(body, Mapping) else None
    if isinstance(body, Mapping) and INHERITED in body:  # for the CLI its keys may count, too
        named = body[INHERITED]
    if not is_name(named) or not is_name(path.parent.name):
        raise EnvironmentUnavailable(f"{named!r} is no name of a feature", hint=LOOK)


def _step(words: Sequence[str], walls: Walls) -> Step:
    said: dict[str, list[str]] = {}
    rest = iter(words[:-1])
    for word in rest:
        said.setdefault(word, []).append(next(rest, ""))
    arguments = (each.partition("=") for each in said.get("--build-arg", ()))
    place = words[-1] if words else ""
    step = Step(
        tag=said.get("-t", [""])[-1],
        dockerfile=outside(walls, said.get("-f", [f"{place}/Dockerfile"])[-1]),
        context=outside(walls, place),
        arguments={name: value for name, _, value in arguments},
        target=said.get("--target", [""])[-1],
    )
    if not step.context.is_dir():
        raise EnvironmentUnavailable(f"{place!r} is no folder to build of", hint=INSTALL)
    return step


def packed(step: Step, renamed: Mapping[str, str], archive: Path) -> str:
    """Write the tar of a step's context to `archive`, and return the name of its Dockerfile.

    `renamed` are names of images for those that the Dockerfile builds on. Raises
    EnvironmentUnavailable for what is too large.
    """
    text = _read(step.dockerfile)
    for old, new in renamed.items():
        text = text.replace(old, new)
    name = "Dockerfile.features"
    total = 0

    def bounded(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        nonlocal total
        total += tarfile.BLOCKSIZE + entry.size
        if total > CONTEXT_BYTES:
            raise EnvironmentUnavailable(
                f"the devcontainers CLI left more than {CONTEXT_BYTES} bytes to build of", hint=LOOK
            )
        return _as_root(entry)

    with tarfile.open(archive, "w") as written:
        written.add(step.context, arcname=".", filter=bounded)
        entry = tarfile.TarInfo(name)
        entry.size = len(text.encode())
        written.addfile(entry, io.BytesIO(text.encode()))
    return name


def _as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


__all__ = [
    "ASKED_AS",
    "CAUSE_CHARS",
    "CLI_S",
    "CONTEXT_BYTES",
    "INSTALL",
    "METADATA_LABEL",
    "PROGRAM",
    "Extending",
    "Step",
    "find_cli",
    "packed",
    "steps_for",
]
