"""What settings say of MCP servers, read from plain data."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from patchyard.domain.durations import seconds_of
from patchyard.domain.entrusted import NAMED
from patchyard.domain.faults import Fault, Place, check_keys, kind_of
from patchyard.domain.mcp import McpServer
from patchyard.domain.nearness import near_names
from patchyard.domain.reach import looks_secret
from patchyard.domain.texts import text_of, texts_of

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?=[A-Za-z0-9-])){0,30}")  # `__` parts the names
PLACEHOLDER = "placeholder"  # of a credential that only the gateway knows
LONGEST_TIMEOUT_S = 3600.0
ALLOWED = ("elicitation", "sampling")  # what a server may be let ask for
KEYS = (
    *("allow", "args", "command", "env", "idempotent", "read_only_tools"),
    *("timeout_s", "tools", "url"),
)


def mcp_servers_of(value: Any, place: Place) -> Mapping[str, McpServer]:
    """Return the servers that a mapping by name describes. Raises Fault with the place."""
    if not isinstance(value, Mapping):
        raise Fault(place, f"must be a mapping of names, not {kind_of(value)}")
    return {name: _server(name, entry, (*place, name)) for name, entry in value.items()}


def _server(name: str, entry: Any, here: Place) -> McpServer:
    if not NAME.fullmatch(name):
        hint = "letters, digits, dashes and single underscores, 31 at most"
        raise Fault(here, f"{name!r} cannot name a server", hint=hint)
    body = check_keys(entry, here, KEYS)
    command = text_of(body, "command", here, default="")
    words = command.split()
    if len(words) > 1 and "/" not in words[0]:  # a path may hold spaces
        hint = f"command: {words[0]}, args: [{', '.join(words[1:])}]"
        raise Fault((*here, "command"), "must be one program, without its arguments", hint=hint)
    url = text_of(body, "url", here, default="")
    if bool(command) == bool(url):
        raise Fault(here, "a server needs either `command` or `url`")
    if url and {"args", "env"} & body.keys():
        raise Fault(here, "`args` and `env` go with `command`, not with `url`")
    is_idempotent = body.get("idempotent", False)
    if not isinstance(is_idempotent, bool):
        raise Fault((*here, "idempotent"), f"must be true or false, not {kind_of(is_idempotent)}")
    return McpServer(
        name=name,
        command=command,
        args=texts_of(body, "args", here) or (),
        env=_env(body.get("env", {}), (*here, "env")),
        url=_url(url, (*here, "url")),
        idempotent=is_idempotent,
        tools=texts_of(body, "tools", here),
        read_only_tools=texts_of(body, "read_only_tools", here) or (),
        allow=_allow(texts_of(body, "allow", here) or (), body.get("allow"), (*here, "allow")),
        timeout_s=_timeout(body.get("timeout_s", 60.0), (*here, "timeout_s")),
    )


def _env(value: Any, here: Place) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise Fault(here, f"must be a mapping of names, not {kind_of(value)}")
    found = {name: text_of(value, name, here) for name in value}
    for name, text in found.items():
        if text != PLACEHOLDER and not NAMED.search(text) and looks_secret(name, text):
            raise Fault(
                (*here, name),
                f"{name} looks like a credential, and settings hold none",
                hint=f"{name}: ${{{name}}} takes it from the engine's variable, for the server"
                " alone; or `secrets: [NAME@HOST]` lets a gateway use it at that host, unread, and"
                f" the server is given {name}: {PLACEHOLDER}",
            )
    return found


def _allow(names: tuple[str, ...], said: Any, here: Place) -> tuple[str, ...]:
    for number, name in enumerate(names):
        if name not in ALLOWED:
            near = near_names(name, ALLOWED)
            guess = f"; did you mean {near[0]!r}?" if near else ""
            place = (*here, number) if isinstance(said, list) else here
            raise Fault(place, f"{name!r} is none of {', '.join(ALLOWED)}{guess}")
    return tuple(dict.fromkeys(names))


def _url(text: str, here: Place) -> str:
    try:
        parts = urlsplit(text)
        is_plain = not parts.username and not parts.password and not parts.fragment
        is_web = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_web = is_plain = False
    if text and not (is_web and is_plain and text.isascii() and text.isprintable()):
        raise Fault(here, "must be http://HOST/PATH or https://HOST/PATH, without a user in it")
    return text


def _timeout(value: Any, here: Place) -> float:
    seconds = seconds_of(value, here)
    if not 0 < seconds <= LONGEST_TIMEOUT_S:
        raise Fault(here, f"must be more than 0 and {LONGEST_TIMEOUT_S:g} seconds at most")
    return seconds


__all__ = [
    "ALLOWED",
    "KEYS",
    "LONGEST_TIMEOUT_S",
    "NAME",
    "PLACEHOLDER",
    "mcp_servers_of",
]
