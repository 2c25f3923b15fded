"""A toolbox over a connection that may break: wraps the way to it, and calls go on where they were.

The toolbox knows its calls and outlives connections, so a call that is sent again is attached to
and never run twice. Only where no connection comes for a while is it given up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from patchyard.clients.toolbox import ToolboxClient
from patchyard.contracts.environment import OnOutput
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable

T = TypeVar("T")

AGAIN_S = 30.0  # how long it is tried; a toolbox without an engine waits for 60
TIMES = 10  # that one call is sent, its first included
PAUSE_S = 0.2  # between two attempts, at first
LONGEST_PAUSE_S = 3.0


class Gone(EnvironmentBroken):
    """The host answers, and the toolbox is not there any more: nothing is tried again."""


class ReattachingToolbox:
    """contracts.environment.Toolbox over one connection after the other."""

    def __init__(
        self,
        client: ToolboxClient,
        dial: Callable[[], Awaitable[ToolboxClient]],
        hang_up: Callable[[], Awaitable[None]],
    ) -> None:
        """Take the first connection, what makes another (Gone is for good), and what ends it."""
        self._client = client
        self._dial = dial
        self._hang_up = hang_up
        self._lock = asyncio.Lock()
        self._is_closed = False

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
    ) -> Mapping[str, Any]:
        """Run `op` once; see the contract."""
        heard = _Heard(on_output)
        return await self._through(
            lambda client: client.call(call_id, op, args, on_output=heard.begun())
        )

    async def attach(
        self, call_id: str, *, on_output: OnOutput | None = None
    ) -> Mapping[str, Any] | None:
        """Wait for the result of an earlier call; see the contract."""
        heard = _Heard(on_output)
        return await self._through(lambda client: client.attach(call_id, on_output=heard.begun()))

    async def cancel(self, call_id: str) -> None:
        """Kill the call's whole process tree; its result then says CANCELLED."""
        await self._through(lambda client: client.cancel(call_id))

    async def forget(self, call_ids: tuple[str, ...]) -> None:
        """Say that these results are journalled; the toolbox may drop them."""
        await self._through(lambda client: client.forget(call_ids))

    async def close(self) -> None:
        """Drop the connection; the toolbox lives on for its grace time."""
        self._is_closed = True
        await self._client.close()
        await self._hang_up()

    async def _through(self, ask: Callable[[ToolboxClient], Awaitable[T]]) -> T:
        left = TIMES
        while True:
            client = self._client
            try:
                return await ask(client)
            except EnvironmentBroken as error:
                left -= 1
                if self._is_closed or not left:
                    raise
                await self._connect_again(client, error)

    async def _connect_again(self, broken: ToolboxClient, cause: EnvironmentBroken) -> None:
        """Replace a broken connection, once for all who wait. Raises EnvironmentBroken."""
        async with self._lock:
            if self._client is not broken:
                return
            await broken.close()
            loop = asyncio.get_running_loop()
            deadline, pause_s = loop.time() + AGAIN_S, PAUSE_S
            while True:
                try:
                    self._client = await self._dial()
                except Gone:
                    raise
                except (EnvironmentBroken, EnvironmentUnavailable) as error:
                    if loop.time() + pause_s > deadline:
                        raise EnvironmentBroken(
                            f"{cause.message}; nor does it come back: {error.message}",
                            hint=error.hint,
                        ) from error
                else:
                    return
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class _Heard:
    """Output that was told already is not told again by the next connection."""

    def __init__(self, on_output: OnOutput | None) -> None:
        self._on_output = on_output
        self._told: dict[str, int] = {}  # characters, by stream

    def begun(self) -> OnOutput | None:
        """Return who listens on one connection, which tells everything from the beginning."""
        on_output = self._on_output
        if on_output is None:
            return None
        come: dict[str, int] = {}

        def hear(stream: str, text: str) -> None:
            start = come.get(stream, 0)
            come[stream] = start + len(text)
            told = self._told.get(stream, 0)
            if come[stream] > told:
                self._told[stream] = come[stream]
                on_output(stream, text[max(0, told - start) :])

        return hear


__all__ = ["AGAIN_S", "LONGEST_PAUSE_S", "PAUSE_S", "TIMES", "Gone", "ReattachingToolbox"]
