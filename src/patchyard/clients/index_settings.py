"""Where the user's own pip and npm would fetch packages: read from the two programs themselves.

No address stands here. Files of a repository are not asked: both programs run away from it.
"""

import ast
import asyncio
import contextlib
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchyard.domain.errors import Unavailable

ASK_TIMEOUT_S = 30.0
PIP_SECTIONS = ("global", "install", "download", ":env:")  # later ones count more, as pip has it
NPM_KEYS = ("registry", "cafile", "strict-ssl", "userconfig", "globalconfig")


@dataclass(frozen=True, kw_only=True)
class PipSettings:
    """Upstreams of the Python gateway. Addresses may hold credentials."""

    indexes: tuple[str, ...] = field(default=(), repr=False)  # the main one first
    find_links: tuple[str, ...] = field(default=(), repr=False)  # folders, pages
    certificates: str | None = None  # a file of authorities; None: those of the system
    client_certificate: str | None = None
    trusted_hosts: tuple[str, ...] = ()  # hosts whose certificate is not checked


@dataclass(frozen=True, kw_only=True)
class NpmSettings:
    """Upstreams of the JavaScript gateway, and who one is there."""

    registry: str = field(repr=False)
    scopes: Mapping[str, str] = field(default_factory=dict, repr=False)  # "@scope" to registry
    authority: Mapping[str, str] = field(default_factory=dict, repr=False)
    # authority: "host/path/" to the value of an Authorization header
    certificates: str | None = None
    is_strict: bool = True  # whether certificates are checked


async def read_pip_settings(environ: Mapping[str, str]) -> PipSettings:
    """Return pip's effective settings. Raises Unavailable when there is no pip to ask."""
    pip, said = await _ask_pip(environ)
    settings = parse_pip_settings(said)
    main = settings.get("index-url") or await _pip_default(pip, environ)
    is_cut_off = settings.get("no-index", "").lower() in {"1", "true", "yes", "on"}
    return PipSettings(
        indexes=() if is_cut_off else (main, *settings.get("extra-index-url", "").split()),
        find_links=tuple(settings.get("find-links", "").split()),
        certificates=settings.get("cert") or None,
        client_certificate=settings.get("client-cert") or None,
        trusted_hosts=tuple(settings.get("trusted-host", "").split()),
    )


def parse_pip_settings(text: str) -> dict[str, str]:
    """Return what `pip config list` says, the strongest section of each key."""
    found: dict[str, tuple[int, str]] = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(:env:|[a-z]+)\.([a-z0-9-]+)=(.*)", line.strip())
        if match is None or match[1] not in PIP_SECTIONS:
            continue
        rank = PIP_SECTIONS.index(match[1])
        if rank >= found.get(match[2], (-1, ""))[0]:
            found[match[2]] = (rank, _literal(match[3]))
    return {key: value for key, (_, value) in found.items()}


def _literal(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text


async def _ask_pip(environ: Mapping[str, str]) -> tuple[Sequence[str], str]:
    """The first pip that answers, the one on the user's PATH before ours, and its settings."""
    found = shutil.which("pip", path=environ.get("PATH"))
    for command in ([found] if found else []), [sys.executable, "-m", "pip"]:
        with contextlib.suppress(Unavailable):
            if command:
                return command, await _ask(*command, "config", "list", environ=environ)
    raise Unavailable(
        "there is no pip whose settings would say where Python packages are",
        hint="install pip where `agents` runs, or put one on the PATH",
    )


async def _pip_default(pip: Sequence[str], environ: Mapping[str, str]) -> str:
    """The index that pip takes when nothing is configured, as its own help says."""
    text = await _ask(*pip, "download", "--help", environ={**environ, "COLUMNS": "1000"})
    match = re.search(r"--index-url <url>[^(]*\(default\s+(\S+)\)", text)
    if match is None:
        raise Unavailable(
            "pip does not say which index it takes",
            hint="name one: `pip config set global.index-url`",
        )
    return match[1]


async def read_npm_settings(environ: Mapping[str, str]) -> NpmSettings:
    """Return npm's effective settings. Raises Unavailable when there is no npm to ask."""
    npm = shutil.which("npm", path=environ.get("PATH"))
    if npm is None:
        raise Unavailable(
            "there is no npm whose settings would say where JavaScript packages are",
            hint="install npm where `agents` runs",
        )
    answer = await _ask(npm, "config", "get", *NPM_KEYS, environ=environ)
    pairs = (line.partition("=") for line in answer.splitlines())
    said = {key: value for key, _, value in pairs if value not in {"", "null", "undefined"}}
    lines: dict[str, str] = {}
    for name in ("globalconfig", "userconfig"):
        lines |= parse_npmrc(await asyncio.to_thread(_text, said.get(name)), environ)
    lines |= {
        name[len("npm_config_") :]: value
        for name, value in environ.items()
        if name.lower().startswith("npm_config_@")
    }
    return NpmSettings(
        registry=said.get("registry", ""),
        scopes={
            key.removesuffix(":registry"): value
            for key, value in lines.items()
            if key.startswith("@") and key.endswith(":registry")
        },
        authority=_authority(lines),
        certificates=said.get("cafile"),
        is_strict=said.get("strict-ssl", "true") != "false",
    )


def parse_npmrc(text: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of an npmrc file, `${NAME}` replaced as npm does."""
    found = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if not equals or key.startswith(("#", ";")):
            continue
        plain = value.strip().strip("\"'")
        expanded = re.sub(r"\$\{([^}]+)\}", lambda match: environ.get(match[1], match[0]), plain)
        found[key.strip()] = expanded
    return found


def _authority(lines: Mapping[str, str]) -> dict[str, str]:
    """Authorization headers by host and path, from npmrc's `//host/path/:_authToken` keys."""
    found = {}
    for key, value in lines.items():
        match = re.fullmatch(r"//(.+/?):(_authToken|_auth)", key)
        if match is not None and value:
            scheme = "Bearer" if match[2] == "_authToken" else "Basic"
            found[match[1].rstrip("/") + "/"] = f"{scheme} {value}"
    return found


def _text(path: str | None) -> str:
    if path is None or not Path(path).is_file():
        return ""
    return Path(path).read_text(encoding="utf-8", errors="replace")


async def _ask(*command: str, environ: Mapping[str, str]) -> str:
    """Run a program of the user and return what it prints. Raises Unavailable."""
    name = Path(command[0]).name
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd="/",
            env=dict(environ),
        )
    except OSError as error:
        raise Unavailable(f"{name} cannot be started: {error.strerror}") from error
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError as error:
        raise Unavailable(f"{name} did not answer within {ASK_TIMEOUT_S:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise Unavailable(
            f"{name} ended with {process.returncode}", hint=f"try `{name} config list`"
        )
    return os.fsdecode(output)


__all__ = [
    "ASK_TIMEOUT_S",
    "NPM_KEYS",
    "PIP_SECTIONS",
    "NpmSettings",
    "PipSettings",
    "parse_npmrc",
    "parse_pip_settings",
    "read_npm_settings",
    "read_pip_settings",
]
