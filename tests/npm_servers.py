"""The public MCP servers and the inspector, as npm installs them; once a session."""

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from images import WITH_PYTHON
from services import REAL_ENVIRONMENT

__all__ = ["INSPECTOR", "SERVERS", "installed", "with_node"]

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


def with_node() -> tuple[str, ...]:
    """Return the packages of an image in which this machine's node runs."""
    node = str(Path(shutil.which("node") or "node").resolve())
    needed = {word for word in _said("ldd", node).split() if word.startswith("/")}
    needed |= {f"/usr{path}" for path in needed}  # where links join the two
    found = _said("dpkg-query", "--search", node, *sorted(needed))
    packages = {line.partition(":")[0] for line in found.splitlines()}
    return (*WITH_PYTHON, *sorted(packages - {*WITH_PYTHON}))


def _said(*command: str) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout
