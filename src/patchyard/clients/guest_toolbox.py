"""The toolbox of a virtual machine, as the engine has it: a replica of the workspace, and a watch.

A machine that stands still answers nobody, and says nothing either: so while a call runs its warden
is asked, now and then, whether the machine runs.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from patchyard.clients.berths import Station, berth_directory
from patchyard.clients.controls import ANEW, ANSWER_S, control, open_port
from patchyard.clients.far_claims import IN_MACHINE, Bounds
from patchyard.clients.home_room import HomeRoom
from patchyard.clients.path_mapping import PathMapping
from patchyard.clients.replicas import Replica
from patchyard.clients.replicated import ReplicatedToolbox
from patchyard.clients.tenures import Tenure
from patchyard.clients.toolbox import ToolboxClient
from patchyard.contracts.environment import OnOutput
from patchyard.contracts.forwarding import ForwardingToolbox
from patchyard.domain.environment import EnvironmentHandle
from patchyard.domain.errors import EnvironmentBroken
from patchyard.toolbox.twins import Twin

LOOK_S = 5.0  # between two looks at a machine that something is waited for from
STILL = 2  # looks in a row that find it standing, and it is given up

T = TypeVar("T")


class WatchedToolbox(ForwardingToolbox):
    """A toolbox, and a look at its machine while a call waits."""

    look_s = LOOK_S
    answer_s = ANSWER_S

    def __init__(self, toolbox: ToolboxClient, folder: Path) -> None:
        """Take the toolbox's client, and the folder of the warden's sockets."""
        super().__init__(toolbox)
        self._folder = folder

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
    ) -> Mapping[str, Any]:
        """Run `op` once; see the contract. Raises EnvironmentBroken when the machine stands."""
        return await self._watched(self.wrapped.call(call_id, op, args, on_output=on_output))

    async def attach(
        self, call_id: str, *, on_output: OnOutput | None = None
    ) -> Mapping[str, Any] | None:
        """Wait for an earlier call; see the contract. Raises EnvironmentBroken likewise."""
        return await self._watched(self.wrapped.attach(call_id, on_output=on_output))

    async def _watched(self, waiting: Awaitable[T]) -> T:
        answer = asyncio.ensure_future(waiting)
        looks = 0
        try:
            while True:
                done, _ = await asyncio.wait({answer}, timeout=self.look_s)
                if done:
                    return answer.result()
                looks = looks + 1 if await self._stands() else 0
                if looks >= STILL:
                    raise EnvironmentBroken("the virtual machine stands still", hint=ANEW)
        finally:
            if not answer.done():
                answer.cancel()
                with contextlib.suppress(asyncio.CancelledError, EnvironmentBroken):
                    await answer

    async def _stands(self) -> bool:
        """Whether the machine was stopped, or is so busy with nothing that it cannot say."""
        async with control(self._folder) as asking:
            answer = await asking.ask({"do": "status"}, timeout_s=self.answer_s)
            state = answer.get("return") or {}
            if not isinstance(state, Mapping) or state.get("running") is not True:
                return True
            try:
                await asking.tell({"do": "ping"}, timeout_s=self.answer_s)
            except EnvironmentBroken:
                return True
            return False


class GuestToolbox(ReplicatedToolbox):
    """`Toolbox` and `Listening` of a virtual machine."""

    def __init__(
        self,
        watched: WatchedToolbox,
        replica: Replica,
        *,
        folder: Path,
        takes_home: bool,
    ) -> None:
        """Take what a replicated toolbox takes, and the folder of the warden's sockets."""
        super().__init__(watched, replica, takes_home=takes_home)
        self._folder = folder
        self._is_closed = False

    async def close(self) -> None:
        """Take home what was left running has written so far, and drop the connection, once."""
        if not self._is_closed:
            self._is_closed = True
            await super().close()

    async def listen(self) -> tuple[int, socket.socket]:
        """Return a loopback port inside and its listening socket, now owned by the caller."""
        return await open_port(self._folder)


async def attached(station: Station, handle: EnvironmentHandle) -> GuestToolbox:
    """Connect, and make both sides of the replica equal. Raises EnvironmentBroken, Unavailable."""
    folder = berth_directory(station, handle.environment_id)
    path = folder / Path(str(handle.details["socket"])).name
    mapping = PathMapping(here=handle.workspace_path, there=handle.workspace_path)
    client = await ToolboxClient.connect(path)
    try:
        twin = await asyncio.to_thread(_home, str(handle.details["source"]))
    except OSError as error:
        await client.close()
        why = os.strerror(error.errno or 0)
        raise EnvironmentBroken(f"the workspace is gone: {why}") from error
    watched = WatchedToolbox(client, folder)
    most = int(handle.details["memory_mib"]) * 1024 * 1024  # all of it lies in memory there
    bounds = Bounds(file_bytes=most, bytes=most)
    room = HomeRoom.of(handle, str(handle.details["source"]))
    tenure = Tenure(folder)
    replica = Replica(
        watched, twin, mapping, tenure=tenure, bounds=bounds, room=room, place=IN_MACHINE
    )
    is_writable = handle.details.get("is_writable") is True
    toolbox = GuestToolbox(watched, replica, folder=folder, takes_home=is_writable)
    try:
        await toolbox.recover()
    except BaseException:
        try:
            await client.close()
        finally:
            await replica.close()
        raise
    return toolbox


def _home(source: str) -> Twin:
    """Return the tree at home; what comes there belongs to whom the folder belongs to."""
    status = Path(source).stat()
    return Twin(source, owner=(status.st_uid, status.st_gid), is_one_mount=True)


__all__ = ["LOOK_S", "STILL", "GuestToolbox", "WatchedToolbox", "attached"]
