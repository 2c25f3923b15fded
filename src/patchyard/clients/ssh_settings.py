"""OpenSSH's client configuration as the library reads it: what OpenSSH allows and it does not, put.

Copies of the files are written, line for line, with values that the library knows for the same.
What nothing can be put for is refused with the file, the line and the option.
"""

import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from glob import glob
from pathlib import Path

from patchyard.domain.errors import UsageError

EXPANSION = re.compile(r"Invalid (?:token|environment) expansion: (\w+)")
MOST_FILES = 64  # with all that they include
DEEPEST = 16  # files that include one another, as OpenSSH has it
RAW = frozenset({"proxycommand", "remotecommand", "localcommand", "knownhostscommand"})
LISTS = frozenset({"host", "match"})
LINE = re.compile(r"\s*(?P<keyword>[A-Za-z0-9]+)(?:\s*=\s*|\s+|$)(?P<rest>.*)", re.DOTALL)
WORD = re.compile(r"""(?:[^\s"'\\]|\\.|\\$|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')+""", re.DOTALL)
PART = re.compile(
    r"""\\(?P<one>["'\\ ])|"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'"""
)
TIME = re.compile(r"(?:\d+[smhdw]?)+", re.IGNORECASE)
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
LONGEST_S = 2**31 - 1

Complaint = Callable[[str], UsageError]


def _time(value: str) -> str | None:
    """Return a time of OpenSSH's in seconds; `none` is 0, which bounds nothing."""
    if value == "none":
        return "0"
    if not TIME.fullmatch(value):
        return None
    parts = re.findall(r"(\d+)([smhdw]?)", value.lower())
    seconds = sum(int(number) * UNITS[unit] for number, unit in parts)
    return str(seconds) if seconds <= LONGEST_S else None


def _port(value: str) -> str | None:
    """Return a port by its number."""
    if value.isdecimal():
        return value if 0 < int(value) < 65_536 else None
    try:
        return str(socket.getservbyname(value, "tcp"))
    except OSError:
        return None


def _authentication(value: str) -> str | None:
    """Return whether keys are tried: which of them are bound to the session is not told here."""
    known = {"unbound": "yes", "host-bound": "yes"}
    return known.get(value.lower(), value)


def _agent(value: str) -> str | None:
    """Return the agent's socket, where a variable of this process names it."""
    if value != "SSH_AUTH_SOCK" and not re.fullmatch(r"\$[A-Za-z_]\w*", value):
        return value
    return os.environ.get(value.removeprefix("$")) or "none"


def _canonicalizing(value: str) -> str | None:
    return "no" if value.lower() == "none" else value


def _rekeying(value: str) -> str | None:
    return "default" if value.lower() in {"0", "none"} else value


PUT: Mapping[str, tuple[Callable[[str], str | None], str]] = {
    "canonicalizehostname": (_canonicalizing, "write yes, no or always"),
    "connecttimeout": (_time, "write a time like 30, 1m or none"),
    "identityagent": (_agent, ""),
    "port": (_port, "write a number from 1 to 65535"),
    "pubkeyauthentication": (_authentication, "write yes or no"),
    "rekeylimit": (_rekeying, "write it like 1G, or default"),
    "serveraliveinterval": (_time, "write a time like 15 or 1m"),
}
"""By option: what is put for its first value, and the cure where nothing can be."""


class Translation:
    """The copies of one configuration, in a folder of their own."""

    def __init__(self, folder: Path, home: str) -> None:
        self._folder = folder
        self._home = home
        self._copies: dict[str, Path] = {}  # the file's own place, by the name of its copy

    def of(self, file: Path, *, depth: int = 0) -> str:
        """Return the copy of a file, with those that it includes. Raises UsageError."""
        if depth > DEEPEST or len(self._copies) >= MOST_FILES:
            raise UsageError(
                f"{file} is included by too many files of the OpenSSH configuration",
                hint=f"let files include one another {DEEPEST} deep, {MOST_FILES} in all",
            )
        copy = self._folder / f"{len(self._copies)}.config"
        self._copies[str(copy)] = file
        try:
            lines = file.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
        except OSError as error:
            raise UsageError(
                f"{file} cannot be read: {os.strerror(error.errno or 0)}",
                hint="it belongs to the OpenSSH configuration: let its user read it",
            ) from error
        put = [self._line(line, file, number, depth) for number, line in enumerate(lines, 1)]
        copy.write_text("\n".join(put), encoding="utf-8", errors="surrogateescape")
        return str(copy)

    def named(self, said: str) -> str:
        """Return words of the library with the files that they are about."""
        for copy, file in self._copies.items():
            said = said.replace(copy, str(file))
        found = EXPANSION.search(said)
        return said if found is None else f"{self._where(found[1])}{said}"

    def _where(self, name: str) -> str:
        """Return the first line that has `%name` or `${name}`: the library does not say which."""
        for copy, file in self._copies.items():
            lines = Path(copy).read_text(encoding="utf-8", errors="surrogateescape").split("\n")
            for number, line in enumerate(lines, 1):
                if f"%{name}" in line or f"${{{name}}}" in line:
                    return f"{file} line {number}: {line.split()[0]}: "
        return ""

    def _line(self, line: str, file: Path, number: int, depth: int) -> str:
        found = LINE.fullmatch(line)
        if found is None or line.lstrip().startswith("#"):
            return ""
        keyword, rest = found["keyword"], found["rest"].strip()
        option = keyword.lower()

        def wrong(what: str) -> UsageError:
            return UsageError(f"{file} line {number}: {keyword} {what}", hint="mend that line")

        if option in RAW:
            return f"{keyword} {rest}"
        words = _words(rest)
        if words is None:
            raise wrong("has a quote without an end")
        if option == "match" and "exec" in words and any("=" in word for word in words):
            raise wrong("with = in a command cannot be read; put the command into a script")
        if option == "include":
            words = self._included(words, file, depth)
            return f"{keyword} {' '.join(map(_quoted, words))}" if words else ""
        return f"{keyword} {' '.join(map(_quoted, _put(option, words, wrong)))}"

    def _included(self, patterns: Sequence[str], file: Path, depth: int) -> list[str]:
        """Return the copies of what a line includes; a pattern without a file includes nothing."""
        own = Path(self._home, ".ssh")
        below = own if own in file.parents else file.parent
        found: list[Path] = []
        for pattern in patterns:
            place = below / re.sub(r"^~(?=/)", self._home, pattern)
            there = map(Path, sorted(glob(str(place))))  # noqa: PTH207 - as glob(7): no hidden ones
            found += filter(Path.is_file, there)
        return [self.of(each, depth=depth + 1) for each in found]


def _words(text: str) -> list[str] | None:
    """Return the words of a line, quotes and comment taken off; None where a quote does not end."""
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        if text[at] == "#":
            break
        found = WORD.match(text, at)
        if found is None:
            return None
        words.append(PART.sub(_bare, found[0]))
        at = found.end()
    return words


def _bare(part: re.Match[str]) -> str:
    inner = next(each for each in part.group("one", "double", "single") if each is not None)
    return inner if part["one"] else re.sub(r"""\\(["'\\])""", r"\1", inner)


def _put(option: str, words: Sequence[str], wrong: Complaint) -> list[str]:
    """Return the values with what the library knows for the first. Raises UsageError."""
    if not words:
        raise wrong("has no value")
    if option == "user" and words[0].lower() == "none":
        raise wrong("cannot be none")
    if option not in PUT:
        return list(words)
    put, cure = PUT[option]
    value = put(words[0])
    if value is None:
        raise wrong(f"cannot be {words[0]!r}: {cure}")
    return [value, *words[1:]]


def _quoted(word: str) -> str:
    """Return a word as the library splits a line: as a POSIX shell does."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


__all__ = ["DEEPEST", "LONGEST_S", "MOST_FILES", "PUT", "Translation"]
