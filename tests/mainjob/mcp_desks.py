"""Desks with our hostile MCP server in their repository, and in the user's settings."""

import shutil

from hostile_mcp import PROGRAM
from mainjob.driver import Desk, git

__all__ = ["SERVER", "configured", "with_server"]

SERVER = "{command: python3, args: [server.py], read_only_tools: [echo, change]}"


def configured(desk: Desk, text: str) -> None:
    """Write the user's own settings."""
    folder = desk.home / ".config" / "patchyard"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(text)


def with_server(desk: Desk) -> Desk:
    """Return the desk with the server, named `h`."""
    shutil.copy(PROGRAM, desk.repo / "server.py")
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "server")
    configured(desk, f"mcp_servers: {{h: {SERVER}}}\n")
    return desk
