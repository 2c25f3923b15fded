"""The `mock` kind: `host` that can be slow and fail by a seed, for tests of all that stands above.

As it comes it does neither, and is `host` under another name: just as unconfined.
"""

import asyncio
import hashlib
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NoReturn

from patchyard.clients.berths import Station
from patchyard.contracts.environment import Listening, OnOutput, Toolbox
from patchyard.contracts.forwarding import ForwardingToolbox
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Readiness,
)
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable, UsageError
from patchyard.environments.host import HostEnvironment

TOOL_FAILURES = 0.10  # D+: share of tool calls that fail, once failures are on
PLACE_FAILURES = 0.05  # D+: share of starts, attachments and ends
SPREAD = 0.5  # a wait is the latency, more or less by up to this share of it
FAILURES_VARIABLE = "PATCHYARD_MOCK_FAILURES"
LATENCY_VARIABLE = "PATCHYARD_MOCK_LATENCY_MS"
SEED_VARIABLE = "PATCHYARD_MOCK_SEED"
SWITCH = {"": False, "0": False, "1": True, "false": False, "true": True}

Sleep = Callable[[float], Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What goes wrong in a mock and how slow it is; nothing, unless it is said."""

    seed: int = 0
    has_failures: bool = False
    latency_ms: float = 0.0  # of a tool call
    place_latency_ms: float = 0.0  # of starting, attaching and ending


def chance(seed: int, what: str, number: int) -> float:
    """Return a share from 0 up to 1, the same for the same seed, question and number. Pure."""
    digest = hashlib.sha256(f"{seed}/{what}/{number}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def trouble_from(environ: Mapping[str, str]) -> Trouble:
    """Return what the variables ask for, nothing where none is set. Raises UsageError."""
    said = environ.get(FAILURES_VARIABLE, "").strip().lower()
    if said not in SWITCH:
        raise UsageError(f"{FAILURES_VARIABLE} is {said!r}", hint="say true or false")
    latency_ms = _number(environ, LATENCY_VARIABLE)
    seed = int(_number(environ, SEED_VARIABLE))
    return Trouble(seed=seed, has_failures=SWITCH[said], latency_ms=latency_ms)


def _number(environ: Mapping[str, str], name: str) -> float:
    text = environ.get(name, "").strip() or "0"
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise UsageError(f"{name} is {text!r}", hint="say a whole number, 0 or more")
    return float(text)


class Dice:
    """Slowness and failure of one mock, decided by the seed and how often it was asked before."""

    def __init__(self, trouble: Trouble | None = None, *, sleep: Sleep = asyncio.sleep) -> None:
        self._trouble = trouble
        self._sleep = sleep
        self._asked: Counter[str] = Counter()

    @property
    def trouble(self) -> Trouble:
        """What goes wrong from now on; read from the variables where nobody said it."""
        if self._trouble is None:
            self._trouble = trouble_from(os.environ)
        return self._trouble

    @trouble.setter
    def trouble(self, trouble: Trouble) -> None:
        self._trouble = trouble

    async def roll(self, what: str, *, latency_ms: float, share: float) -> float | None:
        """Wait, then return None for all that is well, else how it fails: from 0 up to 1."""
        trouble = self.trouble
        self._asked[what] += 1
        number = self._asked[what]
        if latency_ms > 0:
            slowness = 1 + SPREAD * (2 * chance(trouble.seed, f"{what}/wait", number) - 1)
            await self._sleep(latency_ms * slowness / 1000)
        drawn = chance(trouble.seed, what, number)
        return drawn / share if trouble.has_failures and drawn < share else None

    async def place(self, what: str) -> bool:
        """Wait as long as work on a place takes; return whether it fails."""
        latency_ms = self.trouble.place_latency_ms
        return await self.roll(what, latency_ms=latency_ms, share=PLACE_FAILURES) is not None


class _Stage(HostEnvironment):
    """What a mock is played on."""

    kind = ExecutionEnvironment.MOCK


class MockEnvironment:
    """A real environment of this machine, wrapped. Calls are counted over all places of one.

    Failures are those that a real one has: EnvironmentUnavailable at the start, EnvironmentBroken
    when it is attached to, ended or called. Of the calls that fail one half was never sent, the
    other was carried out and its answer lost.
    """

    kind = ExecutionEnvironment.MOCK

    def __init__(self, station: Station, dice: Dice | None = None) -> None:
        self._stage = _Stage(station)
        self.dice = dice or Dice()

    async def check(self) -> Readiness:
        """Say whether it starts here; nothing is simulated for that."""
        return await self._stage.check()

    async def start(self, spec: EnvironmentSpec) -> EnvironmentHandle:
        """Start one in the workspace's own folder, as `host` does."""
        if await self.dice.place("start"):
            raise EnvironmentUnavailable("the mock did not start, as its seed says", hint=HINT)
        return await self._stage.start(spec)

    async def attach(self, handle: EnvironmentHandle) -> Toolbox:
        """Connect to a started one. Raises EnvironmentBroken when it is gone."""
        if await self.dice.place("attach"):
            _break("nobody answered in the mock, as its seed says")
        return MockToolbox(await self._stage.attach(handle), self.dice)

    def frozen(
        self, handle: EnvironmentHandle, toolbox: Toolbox
    ) -> AbstractAsyncContextManager[bool]:
        """Keep it still; see contracts.environment.Freezing."""
        inner = toolbox.wrapped if isinstance(toolbox, MockToolbox) else toolbox
        return self._stage.frozen(handle, inner)

    async def end(self, handle: EnvironmentHandle) -> None:
        """End it with all that runs there. Raises EnvironmentBroken; it then runs on."""
        if await self.dice.place("end"):
            _break("the mock did not end in time, as its seed says")
        await self._stage.end(handle)


class MockToolbox(ForwardingToolbox):
    """`Toolbox` and `Listening` over another one, some of whose answers are late or lost."""

    def __init__(self, inner: Toolbox, dice: Dice) -> None:
        super().__init__(inner)
        self._dice = dice

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
    ) -> Mapping[str, Any]:
        """Run `op` once under `call_id` and return its result; see the contract."""
        latency_ms = self._dice.trouble.latency_ms
        fate = await self._dice.roll("call", latency_ms=latency_ms, share=TOOL_FAILURES)
        if fate is not None and fate < 0.5:
            _break("the mock was lost before a call, as its seed says")
        result = await self.wrapped.call(call_id, op, args, on_output=on_output)
        if fate is not None:
            _break("the mock was lost with the answer to a call, as its seed says")
        return result

    async def listen(self) -> tuple[int, socket.socket]:
        """Return a loopback port inside and its listening socket, now owned by the caller."""
        assert isinstance(self.wrapped, Listening)  # noqa: S101 - the stage's always is
        return await self.wrapped.listen()


HINT = f"this is simulated: unset {FAILURES_VARIABLE}, or take another kind"


def _break(message: str) -> NoReturn:
    raise EnvironmentBroken(message, hint=HINT)


__all__ = [
    "FAILURES_VARIABLE",
    "HINT",
    "LATENCY_VARIABLE",
    "PLACE_FAILURES",
    "SEED_VARIABLE",
    "SPREAD",
    "SWITCH",
    "TOOL_FAILURES",
    "Dice",
    "MockEnvironment",
    "MockToolbox",
    "Trouble",
    "chance",
    "trouble_from",
]
