"""The engine's side of a container's warden: for containers that no socket can be passed into."""

import asyncio
import contextlib
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchyard.clients.berths import MARK, Berth, identify_started
from patchyard.clients.container_streams import attach
from patchyard.clients.controls import CONTROL_NAME, Control, open_control, open_port
from patchyard.clients.process import ProcessRef, kill, wait_ended
from patchyard.clients.toolbox import ToolboxClient, bind_listener
from patchyard.contracts.forwarding import ForwardingToolbox
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable
from patchyard.toolbox.spawning import spawn_detached

CONTAINER = "the container"
CODE = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from toolbox.container_warden import main; sys.exit(main(sys.argv[2]))"
)

LISTEN_FD, CONTROL_FD, STREAM_FD = 3, 4, 5
END_S = 1.0
VARIABLES = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


@dataclass(frozen=True, kw_only=True)
class Led:
    """One container and the warden that leads to it."""

    warden: ProcessRef
    asking: Control  # open while it starts: without an engine a warden ends after the grace time

    @classmethod
    async def begin(
        cls, berth: Berth, *, engine: str, name: str, python: str, code: Path, grace_s: float
    ) -> "Led":
        """Attach to a container that is made and not started, and leave that to a warden.

        `code` is the folder that holds the compiled `toolbox`. Raises EnvironmentUnavailable.
        """
        with contextlib.ExitStack() as stack:
            stream = stack.enter_context(await asyncio.to_thread(attach, engine, name))
            listening = stack.enter_context(bind_listener(berth.directory, CONTROL_NAME)[0])
            given = {
                "control_fd": CONTROL_FD,
                "folder": str(berth.directory),
                "grace_s": grace_s,
                "listen_fd": LISTEN_FD,
                "ours": [LISTEN_FD, CONTROL_FD, STREAM_FD],
                "stream_fd": STREAM_FD,
            }
            pid = spawn_detached(
                [python, "-I", "-S", "-B", "-c", CODE, str(code), json.dumps(given)],
                env={**VARIABLES, MARK: berth.directory.name},
                descriptors={
                    LISTEN_FD: berth.listener.fileno(),
                    CONTROL_FD: listening.fileno(),
                    STREAM_FD: stream.fileno(),
                },
            )
        warden = identify_started(pid)
        with contextlib.ExitStack() as undo:
            undo.callback(end_warden, warden)
            try:
                asking = await open_control(berth.directory, CONTAINER)
            except EnvironmentBroken as error:
                raise EnvironmentUnavailable(error.message, hint=error.hint) from error
            undo.pop_all()
        return cls(warden=warden, asking=asking)

    async def ready(self, *, timeout_s: float) -> Mapping[str, Any]:
        """Wait until its toolbox is up; return what it says of its rights.

        Nothing of the image has run by then. Raises EnvironmentBroken.
        """
        said = (await self.asking.ask({"do": "ready"}, timeout_s=timeout_s)).get("rights")
        return said if isinstance(said, Mapping) else {}

    async def own(self, init: ProcessRef) -> None:
        """Say which process the container goes with. Raises EnvironmentBroken."""
        await self.asking.ask({"do": "own", "pid": init.pid, "started": init.started})


def end_warden(warden: ProcessRef) -> bool:
    """Kill a warden that may still be there; False when it stays."""
    kill(warden)
    return wait_ended(warden, timeout_s=END_S)


class LedToolbox(ForwardingToolbox):
    """`Toolbox` and `Listening` of a container that is reached through its warden."""

    def __init__(self, toolbox: ToolboxClient, folder: Path) -> None:
        """Take the toolbox's client, and the folder of the warden's sockets."""
        super().__init__(toolbox)
        self._folder = folder

    async def listen(self) -> tuple[int, socket.socket]:
        """Return a loopback port inside and its listening socket, now owned by the caller."""
        return await open_port(self._folder, CONTAINER)


__all__ = ["CONTAINER", "END_S", "Led", "LedToolbox", "end_warden"]
