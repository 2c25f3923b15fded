"""One environment on demand: started by the first call, ended by `close`."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchyard.clients.identity import agent_identity
from patchyard.clients.removal import remove_tree
from patchyard.clients.temporaries import make_sandbox_folder
from patchyard.contracts.environment import Environment, Toolbox
from patchyard.domain.environment import EnvironmentHandle, EnvironmentSpec
from patchyard.domain.errors import EnvironmentBroken
from patchyard.engine.answers import answer_in_time, whole
from patchyard.engine.metering import as_bounded, ended_by_limit, metered
from patchyard.engine.parting import in_time, let_go, parting
from patchyard.execution.cloning import give_to

CANCEL_S = 2.0

Open = tuple[EnvironmentHandle, Toolbox]


class LostCall(EnvironmentBroken):
    """The environment ended, or its answer was lost, after a call was sent."""


class Place:
    """Owns the environments that it starts. Used within one event loop.

    One that broke is given up, with what ran there; the next call starts another.
    """

    def __init__(
        self, environment: Environment, spec: EnvironmentSpec, *, new_id: Callable[[], str]
    ) -> None:
        self._environment = environment
        self.spec = spec
        self._new_id = new_id
        self._open: Open | None = None
        self._leaving: list[EnvironmentHandle] = []  # to be ended
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Start it now, where it does not run. Raises EnvironmentUnavailable, EnvironmentBroken."""
        await self._running()

    async def _running(self) -> Open:
        async with self._lock:
            if self._open is None:
                self._open = await self._started()
            return self._open

    @property
    def is_open(self) -> bool:
        """Whether an environment runs."""
        return self._open is not None

    async def _started(self) -> Open:
        started = await self._environment.start(self.spec)
        handle = replace(started, details=as_bounded(started, self.spec))
        try:
            toolbox = await self._environment.attach(handle)
            return handle, metered(self._environment, handle, toolbox)
        except BaseException:
            self._leaving.append(handle)
            await self._end_leaving()
            raise

    async def _given_up(self, opened: Open) -> None:
        handle, toolbox = opened
        self._leaving.append(handle)
        await let_go(toolbox.close())
        await self._end_leaving()

    async def call(self, op: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Carry out one operation, once, and return the toolbox's answer.

        The limits that are held from outside are looked at meanwhile; one that was hit is named.
        Raises EnvironmentUnavailable or EnvironmentBroken where nothing was sent, LostCall where
        it is not known whether it was carried out. Cancelled, it kills what the call has started.
        """
        opened = await self._running()
        toolbox, call_id = opened[1], self._new_id()
        try:
            payload = await answer_in_time(toolbox.call(call_id, op, args), args, op=op)
        except EnvironmentBroken as error:
            await self._lose(opened)
            if (stopped := ended_by_limit(error)) is not None:
                return stopped
            raise LostCall(error.message, hint=error.hint) from error
        except asyncio.CancelledError:
            await _cancel(toolbox, call_id)
            raise
        with contextlib.suppress(EnvironmentBroken):  # the next call says so
            await toolbox.forget((call_id,))
        return payload

    async def _lose(self, opened: Open) -> None:
        async with self._lock:
            if self._open is opened:
                self._open = None
                await whole(self._given_up(opened))

    async def close(self) -> bool:
        """End all that was started, within some seconds; False when something is left.

        Then it may be called again.
        """
        async with self._lock:
            opened, self._open = self._open, None
            with parting() as own:
                own.begin()
                await whole(self._given_up(opened) if opened else self._end_leaving())
            return not self._leaving

    async def _end_leaving(self) -> None:
        """End what was given up; what does not end stays known."""
        for handle in list(self._leaving):
            with contextlib.suppress(EnvironmentBroken):
                await in_time(self._environment.end(handle))
                self._leaving.remove(handle)


def make_own_workspace() -> Path:
    """Return an empty folder that the agent owns; of a killed process it is returned."""
    folder = make_sandbox_folder() / "workspace"
    folder.mkdir()
    give_to(folder, agent_identity())
    return folder


def remove_own_workspace(folder: Path) -> None:
    """Delete what `make_own_workspace` made, whatever is in it. Raises MountedInside, OSError."""
    remove_tree(folder.parent)


async def _cancel(toolbox: Toolbox, call_id: str) -> None:
    try:
        async with asyncio.timeout(CANCEL_S):
            await asyncio.shield(toolbox.cancel(call_id))
    except (TimeoutError, EnvironmentBroken):
        return  # ending the environment kills what is left


__all__ = ["CANCEL_S", "LostCall", "Place", "make_own_workspace", "remove_own_workspace"]
