"""The public MCP servers and the inspector, as npm installs them; once a session."""

import functools
import subprocess
import tempfile
from pathlib import Path

from services import REAL_ENVIRONMENT

__all__ = ["INSPECTOR", "SERVERS", "installed"]

SERVERS = ("server-everything", "server-filesystem")
INSPECTOR = ("inspector",)
INSTALL_S = 240.0


@functools.cache
def installed(names: tuple[str, ...]) -> Path:
    """Install packages of @modelcontextprotocol into a folder that everybody may read."""
    folder = Path(tempfile.gettempdir()) / f"patchyard-npm-{'-'.join(names)}"
    done = folder / "done"
    if not done.exists():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        wanted = [f"@modelcontextprotocol/{name}" for name in names]
        words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *wanted]
        subprocess.run(
            words, cwd=folder, check=True, capture_output=True, timeout=INSTALL_S,
            env=REAL_ENVIRONMENT,
        )  # fmt: skip
        done.touch()
    return folder
