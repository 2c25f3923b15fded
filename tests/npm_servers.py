"""Packages as npm installs them: the public MCP servers and the inspector, test runners."""

import contextlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from images import WITH_PYTHON
from services import REAL_ENVIRONMENT

__all__ = ["INSPECTOR", "SERVERS", "installed", "installed_packages", "with_node"]

SERVERS = ("server-everything", "server-filesystem")
INSPECTOR = ("inspector",)
INSTALL_S = 240.0


def installed(names: tuple[str, ...]) -> AbstractContextManager[Path]:
    """Lend a folder, which everybody may read, with these packages of @modelcontextprotocol."""
    return installed_packages(*(f"@modelcontextprotocol/{each}" for each in names))


@contextlib.contextmanager
def installed_packages(*wanted: str) -> Iterator[Path]:
    """Lend a folder, which everybody may read, with these packages."""
    with tempfile.TemporaryDirectory(prefix="npm-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *wanted]
        subprocess.run(
            words, cwd=folder, check=True, capture_output=True, timeout=INSTALL_S,
            env=REAL_ENVIRONMENT,
        )  # fmt: skip
        yield folder


def with_node() -> tuple[str, ...]:
    """Return the packages of an image in which this machine's node runs."""
    node = str(Path(shutil.which("node") or "node").resolve())
    needed = {word for word in _said("ldd", node).split() if word.startswith("/")}
    needed |= {f"/usr{path}" for path in needed}  # where links join the two
    found = _said("dpkg-query", "--search", node, *sorted(needed))
    packages = _with_modules({line.partition(":")[0] for line in found.splitlines()})
    return (*WITH_PYTHON, *sorted(packages - {*WITH_PYTHON}))


def _with_modules(packages: set[str]) -> set[str]:
    """Add the modules that Debian keeps apart from its node, and what those need."""
    found, looked_at = packages, set[str]()
    while found - looked_at:
        depends = _said("dpkg-query", "--show", "--showformat=${Depends}\n", *sorted(found))
        looked_at = found
        found = found | set(re.findall(r"\bnode-[a-z0-9.+-]+", depends))
    return found


def _said(*command: str) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout
