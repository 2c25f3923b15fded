"""Pinned tools of MCP servers, a file each below the home."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from patchyard.clients.syncing import put_file, sync_name
from patchyard.domain.errors import Unavailable
from patchyard.domain.mcp import McpServer
from patchyard.toolbox.wire import loaded


class FilePins:
    """contracts.pins.Pins in one folder, which no agent can reach."""

    def __init__(self, folder: Path) -> None:
        """Take the folder; it is made when first needed."""
        self._folder = folder

    def _place(self, server: McpServer) -> Path:
        return self._folder / f"{server.name}-{server.identity[:16]}.json"

    def read(self, server: McpServer) -> Sequence[str] | None:
        """See contracts.pins.Pins. A file that cannot be read pins nothing."""
        try:
            found = loaded(self._place(server).read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        tools = found.get("tools") if isinstance(found, dict) else None
        return [str(text) for text in tools] if isinstance(tools, list) else None

    def keep(self, server: McpServer, texts: Sequence[str]) -> None:
        """See contracts.pins.Pins."""
        place = self._place(server)
        fresh = place.with_suffix(f".{os.getpid()}")
        try:
            if not self._folder.is_dir():
                self._folder.mkdir(mode=0o700, exist_ok=True)
                sync_name(self._folder)
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump({"server": server.name, "tools": list(texts)}, file)
                file.flush()
                os.fsync(file.fileno())
            put_file(fresh, place)
        except OSError as error:
            said = f"{place} cannot be written: {error.strerror}"
            raise Unavailable(said, hint="free some space, or make the home writable") from error


__all__ = ["FilePins"]
