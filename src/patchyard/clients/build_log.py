"""What a container engine says while it builds an image; what of it explains a failure."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager

from patchyard.domain.control_sequences import SEQUENCE
from patchyard.domain.durations import duration
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.domain.machine import ENGINE_ROOM, is_full_disk
from patchyard.toolbox.wire import loaded

STEP = re.compile(r"step \d+/\d+ ?: ?(?P<text>.+)", re.IGNORECASE)
LAST_LINES, LINE_CHARS = 8, 300
ENGINES_OWN = ("--->", "Removing intermediate container")  # beside what a step prints
OUTPUT_CHARS = 8000  # kept of a build that failed
KEPT_CHARS = 64 * 1024  # while it runs
LINE_BYTES = 8 * 1024 * 1024  # an instruction has 1 MiB at most, of which JSON makes six times that
NO_NETWORK = re.compile(
    r"could ?n[o']t resolve|unable to resolve|failed to resolve|failure (in name )?resol"
    r"|name or service not known|network is unreachable|no route to host|getaddrinfo|eai_again"
    r"|enetunreach|bad address|dial tcp|failed to establish a new connection",
    re.IGNORECASE,
)
"""How programs say that nobody answers out there: curl, apt, pip, npm, git, Go, busybox."""
OVERDUE_HINT = "let that step do less, or build the image beforehand and name it: an `image`"


async def lines_of(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of an engine's answer; of a longer one than LINE_BYTES no more is kept."""
    held = bytearray()
    async for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for each in ended:
            held += each[: LINE_BYTES - len(held)]
            yield bytes(held)
            held.clear()
        held += rest[: LINE_BYTES - len(held)]
    if held:
        yield bytes(held)


class BuildLog:
    """The last words of one build, however much it prints; `name` is how people call it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._step = ""  # that runs
        self._said: deque[str] = deque()
        self._chars = 0

    def take(self, line: bytes) -> None:
        """Take one line of the engine's answer. Raises EnvironmentUnavailable for an error."""
        try:
            found = loaded(line)
        except ValueError:
            return
        if "errorDetail" in found:
            raise self._failure(str(found.get("error") or ""))
        self._keep(SEQUENCE.sub("", str(found.get("stream") or "")[-KEPT_CHARS:]))

    def _keep(self, text: str) -> None:
        """Take some words, and forget the first ones where there are too many."""
        for line in text.splitlines():
            step = STEP.match(line)
            self._step = step["text"].strip()[:LINE_CHARS] if step else self._step
        self._said.append(text)
        self._chars += len(text)
        while self._chars > KEPT_CHARS:
            self._chars -= len(self._said.popleft())

    @asynccontextmanager
    async def within(self, longest_s: float) -> AsyncIterator[None]:
        """Bound the build. Raises EnvironmentUnavailable with the step that runs at its end."""
        scope = asyncio.timeout(longest_s)
        try:
            async with scope:
                yield
        except TimeoutError as error:
            if not scope.expired():
                raise
            failure = self._failure(f"it takes longer than {duration(longest_s)}")
            failure.hint = OVERDUE_HINT
            raise failure from error

    def _failure(self, said: str) -> EnvironmentUnavailable:
        """Return the step that failed and its last lines; a cure that fits how it failed."""
        lines = "".join(self._said).splitlines()
        begun = [number for number, line in enumerate(lines) if STEP.match(line)]
        start = begun[-1] + 1 if begun else 0  # else its first words are forgotten
        own = [line.strip() for line in lines[start:]] if self._step else []
        own = [line[:LINE_CHARS] for line in own if line and not line.startswith(ENGINES_OWN)]
        where = f"`{self._step}`: " if self._step else ""
        hint = "mend that step; what it printed last stands above" if own else "mend that step"
        if NO_NETWORK.search("\n".join([*own, said])):
            hint = "a build has no network here: bring what it needs in its images"
        if is_full_disk("\n".join([*own, said])):
            hint = ENGINE_ROOM
        return EnvironmentUnavailable(
            "\n".join([f"{self._name} does not build: {where}{said}", *own[-LAST_LINES:]]),
            hint=hint,
            details={"output": f"{''.join(self._said)}{said}"[-OUTPUT_CHARS:]},
        )


__all__ = [
    "ENGINES_OWN",
    "KEPT_CHARS",
    "LAST_LINES",
    "LINE_BYTES",
    "LINE_CHARS",
    "NO_NETWORK",
    "OUTPUT_CHARS",
    "OVERDUE_HINT",
    "STEP",
    "BuildLog",
    "lines_of",
]
