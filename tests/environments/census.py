"""All that there is of one environment, counted: while it is up, and after its end."""

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from environments.dockerds import OwnEngine
from environments.yards import Yard
from patchyard.clients.process import ProcessStat, all_processes
from patchyard.domain.environment import EnvironmentHandle
from timing import promised

__all__ = ["Census"]

GOING_S = promised(3.0)  # for what was killed and is on its way
PAUSE_S = 0.02
OWN_NETWORK = Path("/proc/self/ns/net").stat().st_ino


@dataclass(frozen=True, kw_only=True)
class Census:
    """What to count by; made while the environment is up."""

    yard: Yard
    handle: EnvironmentHandle
    networks: frozenset[int]  # those of its processes, without this machine's
    engine: OwnEngine | None = None  # used for nothing else

    @classmethod
    def of(cls, yard: Yard, handle: EnvironmentHandle, engine: OwnEngine | None = None) -> "Census":
        """Look at what runs there now."""
        details = handle.details
        first = details.get("init") or details["root"]
        found = _network(int(first["pid"]))
        networks = frozenset({found} - {OWN_NETWORK, 0})
        return cls(yard=yard, handle=handle, networks=networks, engine=engine)

    def counted(self) -> Mapping[str, list[str]]:
        """What there is of it now, by kind of thing, where there is anything."""
        stats = all_processes()
        there = {_network(each.pid) for each in stats}
        found = {
            "processes": [str(each.pid) for each in stats if self._is_its(each)],
            "networks": [str(each) for each in sorted(self.networks & there)],
            "containers": self.engine.containers() if self.engine else [],
            "mounts": self._mounts(),
            "folders": self._folders(),
        }
        return {name: each for name, each in found.items() if each}

    def left(self) -> Mapping[str, list[str]]:
        """What is there of it still, a moment granted."""
        deadline = time.monotonic() + GOING_S
        while (found := self.counted()) and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
        return found

    @property
    def _names(self) -> list[str]:
        places = [str(self.yard.folder), self.handle.environment_id]
        return [*places, f"{self.engine.folder}/exec/"] if self.engine else places

    def _is_its(self, stat: ProcessStat) -> bool:
        """Whether a process names it, stands in its workspace or has its network."""
        if stat.pid == os.getpid() or stat.state in "ZX":
            return False
        if _network(stat.pid) in self.networks:
            return True
        said = b""
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                said += Path(f"/proc/{stat.pid}/{name}").read_bytes()
        with contextlib.suppress(OSError):
            said += os.fsencode(Path(f"/proc/{stat.pid}/cwd").readlink())
        is_daemon = said.startswith((b"dockerd\0", b"containerd\0"))
        return not is_daemon and any(name.encode() in said for name in self._names)

    def _mounts(self) -> list[str]:
        """Mounts of its folders and of its network, and its container's root."""
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
        networks = {f"net:[{number}]" for number in self.networks}
        own = [str(self.yard.folder), self.handle.environment_id]
        below = f"{self.engine.folder}/data/" if self.engine else "\0"
        return [
            words[4]
            for words in (line.split(" ") for line in lines)
            if words[3] in networks
            or words[4].startswith(below)
            or any(name in words[4] and words[4] != str(self.yard.workspace) for name in own)
        ]

    def _folders(self) -> list[str]:
        """Its folders: among the environments, in /tmp, on its host; its control groups."""
        name = self.handle.environment_id
        there = self.yard.server.environments() if self.yard.server else []
        groups = [str(place) for place in self.handle.details.get("group", ()) if name in place]
        return [
            *map(str, self.yard.station.runtime.glob(f"*{name}*")),
            *map(str, Path("/tmp").glob(f"patchyard-{name}*")),
            *(each for each in there if each == name),
            *(each for each in groups if Path(each).exists()),
        ]


def _network(pid: int) -> int:
    """The number of a process's network namespace; 0 of one that is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    return 0
