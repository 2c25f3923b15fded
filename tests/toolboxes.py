"""Toolboxes to test with: operations in this process, and whole servers in one of their own."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchyard.clients.copies import compiled_toolbox
from patchyard.clients.toolbox import ToolboxClient, bind_listener
from patchyard.clients.toolbox_options import TOOLBOX_FOLDER, ToolboxOptions, toolbox_command
from patchyard.toolbox.calls import Call
from patchyard.toolbox.operations import begin
from patchyard.toolbox.room import Room
from patchyard.toolbox.server import encode_result
from patchyard.toolbox.settings import Settings
from patchyard.toolbox.wire import Decoder

__all__ = ["Operations", "Server", "alive", "gone", "serving", "timed_out", "until", "written"]

MEASURED = "import sys; from patchyard.toolbox.server import main; sys.exit(main(sys.argv[1]))"


class Operations:
    """Runs operations on a workspace here, without wire or process."""

    def __init__(self, workspace: Path, *, is_read_only: bool = False) -> None:
        given = f'{{"listen_fd": -1, "workspace": "{workspace}"}}'
        settings = Settings(given)
        settings.is_read_only = is_read_only
        self.workspace = workspace
        self.room = Room(settings)

    def call(self, call_id: str = "c") -> Call:
        """A call whose mark no other process carries: those that do are killed at its end."""
        return Call(call_id, f"{self.workspace}.{call_id}", encode_result)

    def run(self, op: str, **args: Any) -> dict[str, Any]:
        call = self.call()
        begin(self.room, call, op, args)
        while call.frame is None:
            self.room.loop.later(0.001, self.room.children.reap)  # the server hears by a signal
            self.room.loop.turn()
        self.room.children.reap()
        result: dict[str, Any] = Decoder().feed(call.frame)[0]["result"]
        return result

    def code(self, op: str, **args: Any) -> str:
        """The error code of a call that must fail with a message."""
        result = self.run(op, **args)
        assert result["success"] is False
        assert result["message"]
        return str(result["error"])


@dataclass
class Server:
    """A running toolbox."""

    process: "subprocess.Popen[bytes]"
    path: Path
    workspace: Path
    client: ToolboxClient
    calls: int = 0

    async def run(self, op: str, **args: Any) -> Mapping[str, Any]:
        self.calls += 1
        return await self.client.call(f"{id(self)}-{self.calls}", op, args)

    async def command(self, command: str, **args: Any) -> Mapping[str, Any]:
        return await self.run("execute_command", command=command, **args)


async def timed_out(server: Server, command: str, *names: str, **args: Any) -> Mapping[str, Any]:
    """Run what never ends; it has more time where it did not come to write files of these names."""
    for timeout_s in (1.5, 15.0, 60.0):
        result = await server.command(command, timeout_s=timeout_s, **args)
        if all(has_line(server.workspace / name) for name in names):
            return result
    raise AssertionError(names)


def _start(command: list[str], listening: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, pass_fds=[listening])


@asynccontextmanager
async def serving(
    folder: Path,
    python: str | None = None,
    options: ToolboxOptions | None = None,
    variables: Mapping[str, str] | None = None,
) -> AsyncIterator[Server]:
    """A toolbox on `folder`/work; measured for coverage unless another `python` is named."""
    workspace = folder / "work"
    workspace.mkdir(exist_ok=True)
    listener, path = bind_listener(folder)
    with listener:
        given = options or ToolboxOptions(listen_fd=0, workspace=str(workspace))
        given = replace(given, listen_fd=listener.fileno(), workspace=str(workspace))
        interpreter = python or sys.executable
        # Another user may not read what lies in a closed home.
        code = TOOLBOX_FOLDER.parent
        if given.uid is not None:
            code = compiled_toolbox(folder / "shelf", interpreter)
        command = toolbox_command(interpreter, str(code), given)
        if python is None:
            # -B, as the engine starts them: under a limit of file sizes Python 3.11 would leave the
            # first bytes of a module's bytecode for whoever imports it next.
            command = [sys.executable, "-B", "-c", MEASURED, command[-1]]
        process = _start(command, listener.fileno())
    try:
        async with asyncio.timeout(60):  # one that is started on a busy machine
            client = await ToolboxClient.connect(path, variables=variables, is_bounded=False)
        try:
            yield Server(process, path, workspace, client)
        finally:
            await client.close()
        if process.poll() is None:
            again = await ToolboxClient.connect(path)
            await again.end()
    finally:
        if process.poll() is None:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()
        path.unlink()


def alive(path: Path) -> bool:
    """Whether the process whose number is in the file still runs."""
    stat = Path("/proc", path.read_text().strip(), "stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def has_line(path: Path) -> bool:
    return path.exists() and path.read_text().endswith("\n")


async def comes_true(condition: Callable[[], object]) -> None:
    """Look again and again where no event comes; two minutes at most."""
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event of ours
            await asyncio.sleep(0.005)


async def until(condition: Callable[[Path], bool], path: Path) -> Path:
    """Look again and again: another process makes it true."""
    await comes_true(lambda: condition(path))
    return path


async def written(path: Path) -> Path:
    """Wait until the file has a whole line."""
    return await until(has_line, path)


async def gone(path: Path) -> None:
    await until(lambda pid: not alive(pid), path)
