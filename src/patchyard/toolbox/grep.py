"""`grep_search`: by ripgrep where there is one, else in Python with the same results."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import stat
import time

from . import arguments
from .alarm import in_time
from .answers import Refusal, success
from .commands import environment
from .globs import split_patterns
from .paths import require_regular
from .walking import SKIPPED, Unread, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Generator, Iterator

    from .globs import Glob
    from .room import Room

MAX_A_FILE = 50  # D+
MAX_CHARS = 250  # D+
MAX_MATCHES = 1000
MAX_FILE_BYTES = 10 * 1024 * 1024
DEADLINE_S = 25.0
STEP_S = 0.005
POLL_S = 0.001
ONE_FILE_S = 2.0
PIECE_BYTES = 256 * 1024
RG_TROUBLE = 2  # exit code where something could not be read, whatever was found
SYSTEM_PLACES = "/usr/bin:/usr/local/bin:/bin"


class Search:
    """What is looked for, and what has been found."""

    def __init__(self, args: dict[str, Any]) -> None:
        self.pattern = arguments.text(args, "pattern")
        arguments.data(args, "pattern")  # ripgrep gets it as bytes
        if not self.pattern or "\0" in self.pattern:
            raise Refusal("VALIDATION_ERROR", "`pattern` must be a regular expression")
        self.is_case_sensitive = arguments.flag(args, "case_sensitive")
        self._include = split_patterns(arguments.text(args, "include_pattern", ""))
        self._exclude = split_patterns(arguments.text(args, "exclude_pattern", ""))
        self.rows: list[dict[str, Any]] = []
        self.is_cut = False
        self.unread = Unread()
        self.deadline = time.monotonic() + DEADLINE_S

    def takes(self, path: str) -> bool:
        """Whether the file is asked for."""
        if self._include and not _any(self._include, path):
            return False
        return not _any(self._exclude, path)

    def add(self, path: str, number: int, line: str) -> None:
        """Keep a matching line."""
        content = line.rstrip("\r\n").strip()[:MAX_CHARS]
        self.rows.append({"file": path, "line_number": number, "content": content})

    @property
    def is_full(self) -> bool:
        """Whether enough was found, or the time is over; says so in `is_cut`."""
        if len(self.rows) > MAX_MATCHES or self.is_late:
            self.is_cut = True
        return self.is_cut

    @property
    def is_late(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self.deadline

    def result(self) -> dict[str, Any]:
        """Return the result; no match is a success."""
        rows = self.rows[:MAX_MATCHES]
        return success(
            "%d matches" % len(rows),
            matches=["%(file)s:%(line_number)d:%(content)s" % row for row in rows],
            detailed_matches=rows,
            match_count=len(rows),
            query=self.pattern,
            truncated=self.is_cut,
            unreadable=self.unread.count,
        )


def _any(globs: list[Glob], path: str) -> bool:
    return any(glob.matches(path) for glob in globs)


def grep_search(room: Room, args: dict[str, Any]) -> Generator[float, None, dict[str, Any]]:
    """Find lines that match a regular expression."""
    return in_time(_search(room, args), ONE_FILE_S)


def _search(room: Room, args: dict[str, Any]) -> Generator[float, None, dict[str, Any]]:
    search = Search(args)
    asked = arguments.text(args, "path", ".") or "."
    with room.workspace.locate(asked) as place:
        found = place.stat()
        if found is None:
            raise Refusal("FILE_NOT_FOUND", "no file or folder %s" % asked)
        shown = "" if place.relative == "." else place.relative
        if stat.S_ISDIR(found.st_mode):
            area = Area(place.open_folder(), shown, "")
        else:
            require_regular(found, shown)
            area = Area(place.open_parent(), os.path.dirname(shown), os.fsdecode(place.name))
    try:
        ripgrep = find_ripgrep(room.settings.env.get("PATH", ""))
        is_done = bool(ripgrep) and (yield from by_ripgrep(room, search, ripgrep, area))
        if not is_done:
            search.rows.clear()  # ripgrep may have died on the way
            search.unread = Unread()
            yield from by_python(search, area)
    finally:
        os.close(area.top)
    return search.result()


class Area:
    """Where to search: a folder, open, its path from the workspace, and perhaps one name in it."""

    def __init__(self, top: int, prefix: str, name: str) -> None:
        self.top = top
        self.prefix = prefix
        self.name = name

    def join(self, path: str) -> str:
        """Return the path from the workspace of a path from the folder."""
        return self.prefix + "/" + path if self.prefix else path


def find_ripgrep(path: str) -> str:
    """Return ripgrep's place, empty when there is none. Searches the system's folders first."""
    for folder in (SYSTEM_PLACES + ":" + path).split(":"):
        if folder.startswith("/") and os.access(folder + "/rg", os.X_OK):
            return folder + "/rg"
    return ""


def by_ripgrep(
    room: Room, search: Search, ripgrep: str, area: Area
) -> Generator[float, None, bool]:
    """Search by ripgrep; False when it did not understand the pattern."""
    argv = [ripgrep, "--json", "--no-config", "--no-ignore", "--hidden", "--no-messages"]
    argv += ["--sort=path", "--encoding=none", "--max-count=%d" % MAX_A_FILE]
    argv += ["--max-filesize=%d" % MAX_FILE_BYTES]
    argv += ["--glob=!**/%s/**" % name for name in sorted(SKIPPED)]
    argv += [] if search.is_case_sensitive else ["--ignore-case"]
    argv += ["--regexp=" + search.pattern, "--", "./" + area.name]
    reading, writing = os.pipe2(os.O_CLOEXEC)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    ended = []
    pid = 0
    try:
        env = environment(room, {}, "search")
        ends = {0: null, 1: writing, 2: null}
        pid = room.children.spawn(argv, env, area.top, ends, lambda code, _used: ended.append(code))
    finally:
        os.close(null)
        os.close(writing)
        if not pid:
            os.close(reading)
    os.set_blocking(reading, False)
    try:
        is_done = yield from _read_answers(search, reading, area)
        while is_done and not search.is_cut and not ended and not search.is_late:
            yield POLL_S
    finally:
        os.close(reading)
        if not ended:
            os.kill(pid, signal.SIGKILL)
    if is_done and ended and ended[0] == RG_TROUBLE:
        yield from _count_unread(search, area)
    return is_done


def _count_unread(search: Search, area: Area) -> Generator[float, None, None]:
    """Count what ripgrep could not read: it says that there was something, and not what."""
    step_end = time.monotonic() + STEP_S
    for found in walk(area.top, area.prefix, only=area.name, unread=search.unread):
        if search.takes(found.path):
            try:
                os.close(found.open())
            except OSError as error:
                search.unread.note(error)
        if search.is_late:
            return
        if time.monotonic() > step_end:
            yield 0.0
            step_end = time.monotonic() + STEP_S


def _read_answers(search: Search, reading: int, area: Area) -> Generator[float, None, bool]:
    reader = _AnswerReader(search, area)
    rest = b""
    while not search.is_full:
        try:
            piece = os.read(reading, PIECE_BYTES)
        except BlockingIOError:
            yield POLL_S
            continue
        if not piece:
            break
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            reader.take(json.loads(line))
        yield 0.0
    return reader.is_over or search.is_cut


class _AnswerReader:
    """Takes ripgrep's JSON lines; a file's matches count once its end says that it is text."""

    def __init__(self, search: Search, area: Area) -> None:
        self._search = search
        self._area = area
        self._held: list[tuple[str, int, str]] = []
        self.is_over = False

    def take(self, answer: dict[str, Any]) -> None:
        """Take one line."""
        data = answer["data"]
        if answer["type"] == "match":
            path = self._area.join(_text(data["path"])[2:])
            self._held.append((path, data["line_number"], _text(data["lines"])))
        elif answer["type"] == "end":
            if data["binary_offset"] is None:
                for path, number, line in self._held:
                    if self._search.takes(path):
                        self._search.add(path, number, line)
            self._held = []
        elif answer["type"] == "summary":
            self.is_over = True


def _text(value: dict[str, str]) -> str:
    if "text" in value:
        return value["text"]
    return base64.b64decode(value["bytes"]).decode("utf-8", "surrogateescape")


def by_python(search: Search, area: Area) -> Generator[float, None, None]:
    """Search file by file, by Python's own expressions."""
    try:
        flags = 0 if search.is_case_sensitive else re.IGNORECASE
        matches = re.compile(search.pattern, flags).search
    except (re.error, OverflowError, RecursionError) as error:
        raise Refusal("INVALID_PATTERN", "invalid regular expression: %s" % error) from None
    step_end = time.monotonic() + STEP_S
    for path, content in _contents(search, area):
        for number, line in _hits(content, matches):
            search.add(path, number, line)
        if search.is_full:
            return
        if time.monotonic() > step_end:
            yield 0.0
            step_end = time.monotonic() + STEP_S


def _hits(content: bytes, matches: Callable[[str], Any]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    text = content.decode("utf-8", "surrogateescape")
    for number, line in enumerate(text.split("\n"), 1):
        if matches(line) and (line or number <= text.count("\n")):
            found.append((number, line))
            if len(found) == MAX_A_FILE:
                break
    return found


def _contents(search: Search, area: Area) -> Iterator[tuple[str, bytes]]:
    """Yield each file's path and text; empty for what is not asked for, or no text."""
    for found in walk(area.top, area.prefix, only=area.name, unread=search.unread):
        content = found.read(MAX_FILE_BYTES) if search.takes(found.path) else None
        yield found.path, b"" if content is None or b"\0" in content else content


__all__ = [
    "DEADLINE_S",
    "MAX_A_FILE",
    "MAX_CHARS",
    "MAX_FILE_BYTES",
    "MAX_MATCHES",
    "ONE_FILE_S",
    "PIECE_BYTES",
    "POLL_S",
    "RG_TROUBLE",
    "STEP_S",
    "SYSTEM_PLACES",
    "Area",
    "Search",
    "by_python",
    "by_ripgrep",
    "find_ripgrep",
    "grep_search",
]
