"""The bait around the workspaces: planted by the engine's side, with random canaries."""

import asyncio
import contextlib
import ctypes
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from patchyard.probing.attack import Attack, Group
from patchyard.probing.evidence import end_processes_of, leftovers
from patchyard.probing.listeners import Listeners
from patchyard.probing.scene import UNWRITTEN, Scene
from patchyard.probing.terminals import BaitTerminal
from patchyard.probing.victims import start_victim

PREFIX = "patchyard-probe-"
WAY = "way"  # a link to the bait of `through_link` in the checkout, a folder in the change set
EXPORTED = "PATCHYARD_PROBE_SECRET"  # a variable of the engine while it probes
HANDLE_BYTES = 128  # MAX_HANDLE_SZ


class Bait:
    """All that is planted for one probe. Open it with `async with`; nothing stays."""

    def __init__(self, *, state: Path, identity: tuple[int, int] | None) -> None:
        self._identity = identity  # of the agent, where that is not our own user
        self._stack = AsyncExitStack()
        self._state_home = state
        self._tokens: list[str] = []
        self.folder = Path()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.folder.chmod(0o711)
            for name in ("bait", "ran", "sockets", "other"):
                self.open_folder(self.folder / name)
            self._listeners = Listeners(self.folder / "sockets", self.folder.name)
            await stack.enter_async_context(self._listeners)
            self._expose(stack)
            self._state = self._state_home / self.folder.name
            self._state.mkdir(mode=0o755, parents=True)
            stack.callback(shutil.rmtree, self._state, ignore_errors=True)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        for token in self._tokens:
            end_processes_of(token)
            for path in leftovers(token):
                shutil.rmtree(path, ignore_errors=True)
                with contextlib.suppress(OSError):  # mostly nothing was left
                    path.unlink()

    def _expose(self, stack: AsyncExitStack) -> None:
        """Have a variable and an open folder that an engine could pass on by mistake."""
        os.environ[EXPORTED] = self._exported = _canary()
        stack.callback(os.environ.pop, EXPORTED, None)
        leak = self.open_folder(self.folder / "leak")
        self._leaked = _canary()
        self._plant(leak / "secret", self._leaked)
        self.leak = os.open(leak, os.O_RDONLY | os.O_DIRECTORY)
        os.set_inheritable(self.leak, True)
        stack.callback(os.close, self.leak)

    def open_folder(self, folder: Path) -> Path:
        """Make a folder of the agent's user that everybody may write to."""
        folder.mkdir()
        folder.chmod(0o777)
        self.give(folder)
        return folder

    def give(self, path: Path) -> None:
        """Make it belong to the agent's user."""
        if self._identity is not None:
            os.chown(path, *self._identity, follow_symlinks=False)

    async def scene(self, attack: Attack, *, root: Path, inside: str, is_control: bool) -> Scene:
        """Plant the bait for one run in the workspace at `root`, which shows as `inside`."""
        token, canary, kept = secrets.token_hex(8), self._canary_of(attack), _canary()
        self._tokens.append(token)
        folder = self.open_folder(self.folder / "bait" / token)
        self._plant(folder / "secret", canary)
        place = self.open_folder(root / token)
        self._plant(place / "planned", kept)
        scene = Scene(
            group=attack.group,
            token=token,
            canary=canary,
            kept=kept,
            folder=folder,
            place=place,
            given={
                "token": token,
                "control": is_control,
                "workspace": inside,
                "inner": token,
                "near": f"{inside}/{token}",
                "planned": f"{inside}/{token}/planned",
                "spot": f"{inside}/{token}/spot",
                "folder": str(folder),
                "secret": str(folder / "secret"),
                "ran": str(self.folder / "ran"),
                "way": WAY,
                "other_call": f"forged-{token}",
                "sockets": self._sockets(),
                "ports": self._listeners.ports,
                "options": dict(attack.options),
            },
            heard=self._listeners.heard,
        )
        scene.given = {**scene.given, **await self._further(attack, scene)}
        scene.look()
        return scene

    def _canary_of(self, attack: Attack) -> str:
        if attack.options.get("leaks"):
            return self._leaked
        return self._exported if attack.options.get("exports") else _canary()

    async def _further(self, attack: Attack, scene: Scene) -> Mapping[str, Any]:
        """Plant what only some attacks want."""
        found: dict[str, Any] = {}
        if attack.has_victim:
            scene.victim = await start_victim(
                scene.given, canary=scene.canary, identity=self._identity
            )
            self._stack.push_async_callback(scene.victim.end)
            found["victim"] = scene.victim.facts
        if attack.options.get("leaks"):
            found["leak"] = self.leak
        if attack.group is Group.TERMINAL:
            scene.terminal = BaitTerminal()
            self._stack.callback(scene.terminal.close)
            found["terminal"] = scene.terminal.path
        if attack.group is Group.PROCESSES:
            found["shared"] = f"/dev/shm/patchyard-{scene.token}"  # noqa: S108 - taken away at the end
            self._plant(Path(found["shared"]), scene.canary)
        if attack.group is Group.SECRETS:
            found |= self._secrets(scene)
        if attack.group is Group.FILES:
            found["handle"] = await asyncio.to_thread(_handle, scene.folder / "secret")
        if attack.script == "setuid_program":
            program = scene.place / "become-root"
            shutil.copy("/usr/bin/id", program)
            program.chmod(0o4755)
        return found

    def _secrets(self, scene: Scene) -> Mapping[str, Any]:
        secret, journal = (self._state / f"{scene.token}.{kind}" for kind in ("secret", "journal"))
        secret.write_text(scene.canary)
        journal.write_text(UNWRITTEN)
        journal.chmod(0o666)
        scene.journal = journal
        other = self.open_folder(self.folder / "other" / scene.token) / "secret"
        self._plant(other, scene.canary)
        places = {"secret": str(secret), "journal": str(journal)}
        return {"state": places, "other": str(other)}

    def _plant(self, path: Path, canary: str) -> None:
        path.write_text(f"{canary}\n")
        path.chmod(0o666)
        self.give(path)

    def _sockets(self) -> Mapping[str, str]:
        abstract, datagram = self._listeners.abstract, self._listeners.datagram
        return {**self._listeners.paths, "abstract": abstract, "datagram": datagram}


def _canary() -> str:
    return f"canary-{secrets.token_hex(12)}"


def _handle(path: Path) -> Mapping[str, Any]:
    """Return the number of a file by which root may open it past every mount."""
    libc = ctypes.CDLL(None, use_errno=True)
    kept = (ctypes.c_char * (8 + HANDLE_BYTES))()
    ctypes.c_uint.from_buffer(kept).value = HANDLE_BYTES
    mount = ctypes.c_int()
    if libc.name_to_handle_at(-100, os.fsencode(path), kept, ctypes.byref(mount), 0) != 0:
        return {"kind": 0, "content": ""}
    size = ctypes.c_uint.from_buffer(kept).value
    kind = ctypes.c_int.from_buffer(kept, 4).value
    return {"kind": kind, "content": bytes(kept)[8 : 8 + size].hex()}


__all__ = ["EXPORTED", "PREFIX", "WAY", "Bait"]
