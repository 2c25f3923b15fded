"""A toolbox whose workspace is a replica: wraps one, and keeps the tree at home true around calls.

What changed at home goes in before a call; what a call changed comes home after it, and only then
is it over: a call that the journal calls settled has all its files at home.

What a call leaves running (a background job, a shell session, a daemon) may change the replica at
any time. It pins it: until a look finds nothing running any more, the replica's changes come home
before and after each call, reading ones too, whenever a checkpoint looks, and at the end; so also
when the job is polled and when it has ended. Where both sides changed one file meanwhile, the
replica's is taken.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from patchyard.clients.freezing import stopped
from patchyard.clients.replicas import Replica
from patchyard.contracts.environment import OnOutput, Toolbox
from patchyard.contracts.forwarding import ForwardingToolbox
from patchyard.domain.errors import EnvironmentBroken, Unavailable
from patchyard.domain.limit_hits import told

READING = frozenset(
    ["codebase_search", "grep_search", "list_directory", "read_file", "search_files"]
)
ELSEWHERE = frozenset(["freeze", "job_kill", "job_output", "job_status", "thaw"])
"""Operations that do not begin with what lies in the workspace."""
CLOSING_S = 2.0  # for what a job left; then its environment is ended anyway


class ReplicatedToolbox(ForwardingToolbox):
    """contracts.environment.Toolbox over a replica; call `recover` first."""

    def __init__(self, toolbox: Toolbox, replica: Replica, *, takes_home: bool) -> None:
        """Without `takes_home` nothing ever comes home: planning reads."""
        super().__init__(toolbox)
        self._replica = replica
        self._takes_home = takes_home
        self._lock = asyncio.Lock()  # one exchange at a time
        self._sent = 0  # calls that may write, so far
        self._taken = 0  # exchanges that bring something home, so far
        self._is_pinned = takes_home  # the replica may have changed since the last look
        self._is_busy = False  # something ran there at the last look

    async def recover(self) -> None:
        """Make both sides equal for the first time. Raises EnvironmentBroken, Unavailable."""
        async with self._lock:
            sent = self._sent
            is_busy = await self._replica.recover(takes_home=self._takes_home)
            self._note(is_busy=is_busy, sent=sent)

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
    ) -> Mapping[str, Any]:
        """Run `op` once with all files in place; see the contract."""
        result = await self._called(call_id, op, args, on_output)
        if not self._lock.locked():  # the exchange that goes on ends in a rest too
            async with self._lock:
                await self._replica.rest()
        return result

    async def _called(
        self, call_id: str, op: str, args: Mapping[str, Any], on_output: OnOutput | None
    ) -> Mapping[str, Any]:
        if op not in ELSEWHERE:
            await self._bring_in()
        if op in READING:
            result = await self.wrapped.call(call_id, op, args, on_output=on_output)
            return await self._settled(result, has_changed=False)
        self._sent += 1
        sent, taken = self._sent, self._taken
        self._is_pinned = self._takes_home
        result = dict(await self.wrapped.call(call_id, op, args, on_output=on_output))
        is_busy = _left_as_it_was(result.pop("replica", None))
        # what another exchange took home meanwhile may have been gone again when this one was over
        if is_busy is not None and self._takes_home and taken == self._taken:
            self._replica.left_out = ()
            self._note(is_busy=is_busy, sent=sent)
            return result
        return await self._settled(result, has_changed=True)

    async def attach(
        self, call_id: str, *, on_output: OnOutput | None = None
    ) -> Mapping[str, Any] | None:
        """Wait for an earlier call, and for its files; see the contract."""
        self._sent += 1
        self._is_pinned = self._takes_home
        result = await self.wrapped.attach(call_id, on_output=on_output)
        if result is None:
            return None
        told = {name: value for name, value in result.items() if name != "replica"}
        return await self._settled(told, has_changed=True)

    async def _settled(self, result: Mapping[str, Any], *, has_changed: bool) -> Mapping[str, Any]:
        """Return a result once all is at home that it, or what runs on, has changed."""
        if not self._takes_home or not (has_changed or self._is_pinned):
            return result
        await self._bring_home()
        left = [f"{path} ({why})" for path, why in self._replica.left_out]
        if not left:
            return result
        message = f"{result.get('message', '')}; not taken along: {', '.join(left[:5])}"
        found = {**result, "left_out": left, "message": message}
        hit = self._replica.room.news()
        return found if hit is None else told({**found, "success": False}, hit)

    @property
    def left_out(self) -> Sequence[tuple[str, str]]:
        """See contracts.environment.Leaving."""
        return self._replica.left_out

    async def _bring_in(self) -> None:
        async with self._lock:
            if self._is_pinned:
                await self._take_home()
            await self._replica.bring_in()

    async def _bring_home(self) -> None:
        async with self._lock:
            await self._take_home()

    async def _take_home(self) -> None:
        sent = self._sent
        self._taken += 1
        self._note(is_busy=await self._replica.bring_home(), sent=sent)

    def _note(self, *, is_busy: bool, sent: int) -> None:
        """Keep whether it may change further: something runs, or was sent meanwhile."""
        self._is_busy = is_busy
        self._is_pinned = self._takes_home and (is_busy or sent != self._sent)

    @contextlib.asynccontextmanager
    async def still(self) -> AsyncIterator[bool]:
        """Let nothing run there during the block, with all its files at home.

        Yields False where that does not hold.
        """
        if not self._is_pinned:
            yield True
            return
        async with stopped(self.wrapped) as is_whole:
            is_home = False
            with contextlib.suppress(EnvironmentBroken):
                await self._bring_home()
                is_home = True
            yield is_whole and is_home

    async def close(self) -> None:
        """Take home what was left running has written so far, and drop the connection.

        That waits two seconds at most: its environment may have to end in three.
        """
        try:
            if self._is_pinned:
                with contextlib.suppress(EnvironmentBroken, TimeoutError, Unavailable):
                    async with asyncio.timeout(CLOSING_S):
                        await self._bring_home()
        finally:
            await self.wrapped.close()
            async with self._lock:
                await self._replica.close()


def _left_as_it_was(claim: object) -> bool | None:
    """Return whether something runs on after a call that changed nothing; None of any other."""
    if not isinstance(claim, dict) or claim.get("is_same") is not True:
        return None
    return claim.get("is_busy") is not False


__all__ = ["CLOSING_S", "ELSEWHERE", "READING", "ReplicatedToolbox"]
