"""The official devcontainers CLI, which turns features into builds; it builds nothing itself.

It works on a copy of the base's own files and sees a `docker` of ours, which knows one image and
writes down what it is asked to build. So it needs no engine, and builds keep the engine's walls.
"""

import asyncio
import contextlib
import hashlib
import io
import json
import os
import posixpath
import shlex
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.domain.features import HOME, Extension

PROGRAM = "devcontainer"
INSTALL = "npm install -g @devcontainers/cli"
METADATA_LABEL = "devcontainer.metadata"
ASKED_AS = "patchyard-features"  # what it is to call the image
CLI_S = 600.0  # to fetch features, and to say how they are built
OUTPUT_CHARS = 8000  # kept of one that failed
LOCKS = ("devcontainer-lock.json", ".devcontainer-lock.json")  # beside a devcontainer.json
PASSED_ON = (
    *("HTTPS_PROXY", "HTTP_PROXY", "LANG", "NODE_EXTRA_CA_CERTS", "NO_PROXY", "PATH"),
    *("https_proxy", "http_proxy", "no_proxy"),
)
"""All that it gets of the engine's variables: no home, no token, no engine."""

DOCKER = """\
#!/bin/sh
# Stands in for `docker`: knows one image, and writes down what is to be built.
cd {folder} || exit 1
case $1 in
  -v) echo "Docker version 20.10.0" ;;
  version) echo 20.10.0 ;;
  inspect) cat image.json ;;
  build)
    number=$(ls calls | wc -l)
    printf '%s\\0' "$@" >"calls/$number" ;;
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
    program = find_cli(environ)
    await asyncio.to_thread(_prepare, asked, folder)
    words = (
        *("build", "--workspace-folder", str(folder / "work")),
        *("--config", str(folder / "work" / asked.config), "--image-name", ASKED_AS),
        *("--buildkit", "never", "--docker-path", str(folder / "docker")),
        *("--user-data-folder", str(folder / "data")),
    )
    kept = {name: environ[name] for name in PASSED_ON if name in environ}
    own = {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}
    await _run(program, *words, environ={**kept, **own}, folder=folder)
    calls = sorted((folder / "calls").iterdir(), key=lambda call: int(call.name))
    steps = [_step(call.read_bytes().decode().split("\0")[1:-1]) for call in calls]
    if not steps or steps[-1].tag != ASKED_AS:
        raise EnvironmentUnavailable(
            "the devcontainers CLI did not say how the features are built", hint=INSTALL
        )
    return steps


def _prepare(asked: Extending, folder: Path) -> None:
    for name in ("calls", "data", "home", "tmp", f"work/{HOME}"):
        (folder / name).mkdir(parents=True)
    if asked.archive is not None:
        _unpack(asked, asked.archive, folder / "work")
    config = folder / "work" / asked.config
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps({**json.loads(asked.extension.text), "image": asked.image}))
    (folder / "image.json").write_text(json.dumps([_without_metadata(asked.known)]))
    (folder / "docker").write_text(DOCKER.format(folder=shlex.quote(str(folder))))
    (folder / "docker").chmod(0o755)


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


async def _run(program: str, *words: str, environ: Mapping[str, str], folder: Path) -> None:
    """Let the CLI do its work, in a session of its own that ends with this."""
    output = folder / "output"
    process = _started((program, *words), environ, folder, output)
    try:
        async with asyncio.timeout(CLI_S):
            code = await asyncio.to_thread(process.wait)
    except TimeoutError as error:
        raise EnvironmentUnavailable(
            f"the devcontainers CLI was not done within {CLI_S:g} s",
            hint="look whether this machine reaches the registry of the features",
        ) from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()  # it is as good as dead
    if code != 0:
        text = output.read_text(encoding="utf-8", errors="replace")
        raise EnvironmentUnavailable(
            f"the devcontainers CLI cannot install the features: {_cause(text)}",
            hint="`agents plan errors` shows its last words; features that lie elsewhere need a"
            " network that reaches them",
            details={"output": text[-OUTPUT_CHARS:]},
        )


def _started(
    words: Sequence[str], environ: Mapping[str, str], folder: Path, output: Path
) -> "subprocess.Popen[bytes]":
    """Start it without a moment in which a cancelled caller could not end it."""
    with output.open("wb") as written:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            env=dict(environ),
            cwd=folder,
            start_new_session=True,
        )


def _cause(text: str) -> str:
    """Return what the CLI says of its end: a line of JSON among others."""
    lines = text.strip().splitlines()
    for line in reversed(lines):
        with contextlib.suppress(ValueError, AttributeError):
            return str(json.loads(line).get("message") or line)
    return lines[-1] if lines else "it said nothing"


def _step(words: Sequence[str]) -> Step:
    said: dict[str, list[str]] = {}
    rest = iter(words[:-1])
    for word in rest:
        said.setdefault(word, []).append(next(rest, ""))
    arguments = (each.partition("=") for each in said.get("--build-arg", ()))
    return Step(
        tag=said.get("-t", [""])[-1],
        dockerfile=Path(said.get("-f", [f"{words[-1]}/Dockerfile"])[-1]),
        context=Path(words[-1]),
        arguments={name: value for name, _, value in arguments},
        target=said.get("--target", [""])[-1],
    )


def packed(step: Step, renamed: Mapping[str, str], archive: Path) -> str:
    """Write the tar of a step's context to `archive`, and return the name of its Dockerfile.

    `renamed` are names of images for those that the Dockerfile builds on.
    """
    text = step.dockerfile.read_text(encoding="utf-8")
    for old, new in renamed.items():
        text = text.replace(old, new)
    name = "Dockerfile.features"
    with tarfile.open(archive, "w") as written:
        written.add(step.context, arcname=".", filter=_as_root)
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
    "CLI_S",
    "INSTALL",
    "METADATA_LABEL",
    "PROGRAM",
    "Extending",
    "Step",
    "find_cli",
    "packed",
    "steps_for",
]
