"""What a test may need of the machine, and how one finds out whether it is there.

Each probe really uses the service; its answer is kept for the session. None means that it is
there, a text says why it is not.
"""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["PROBES", "REAL_ENVIRONMENT", "absence", "is_required", "python38"]

#: The environment before the suite cleaned it.
REAL_ENVIRONMENT = dict(os.environ)


def _fails(*command: str, timeout_s: float = 20) -> str | None:
    """Why a command does not work, or None where it does."""
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not installed"
    try:
        run = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            env=REAL_ENVIRONMENT,
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not answer within {timeout_s:g} s"
    if run.returncode == 0:
        return None
    said = (run.stderr.strip() or run.stdout.strip() or "no message").splitlines()[-1]
    return f"{command[0]} failed: {said[:200]}"


def python38() -> str | None:
    """A Python 3.8 of this machine, on the PATH or under pyenv."""
    home = Path(REAL_ENVIRONMENT.get("HOME", "/nonexistent"))
    kept = sorted(home.glob(".pyenv/versions/3.8*/bin/python3.8"))
    for candidate in ["python3.8", *map(str, kept)]:
        if _fails(candidate, "-c", "import ssl") is None:
            return candidate
    return None


def _python38() -> str | None:
    return None if python38() else "no Python 3.8 on the PATH or under pyenv"


def _overlay() -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        script = (
            f"cd {folder} && mkdir l u w m && "
            "mount -t overlay none -o lowerdir=l,upperdir=u,workdir=w m && touch m/written"
        )
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        return _fails("unshare", *user, "--mount", "sh", "-c", script)


def _pypi() -> str | None:
    return _fails(sys.executable, "-m", "pip", "index", "versions", "six", timeout_s=30)


def _npm() -> str | None:
    return _fails("npm", "view", "left-pad", "version", timeout_s=30)


def _root() -> str | None:
    return None if os.geteuid() == 0 else f"runs as user {os.geteuid()}"


def _ordinary_user() -> str | None:
    """Whether `nobody` may run this Python, which a closed home around it would hide."""
    if os.geteuid() != 0:
        return None
    words = [sys.executable, "-c", "import patchyard"]
    try:
        run = subprocess.run(
            words, check=False, capture_output=True, user=65534, group=65534, extra_groups=[]
        )
    except OSError as error:
        return f"user 65534 cannot start {sys.executable}: {error.strerror}"
    return None if run.returncode == 0 else "user 65534 cannot import patchyard"


PROBES: dict[str, Callable[[], str | None]] = {
    "bubblewrap": lambda: _fails("bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"),
    "node": lambda: _fails("node", "--version"),
    "npm-index": _npm,
    "ordinary-user": _ordinary_user,
    "overlay": _overlay,
    "pypi-index": _pypi,
    "python3.8": _python38,
    "ripgrep": lambda: _fails("rg", "--version"),
    "root": _root,
    "user-namespaces": lambda: _fails("unshare", "--user", "true"),
}


@functools.cache
def absence(name: str) -> str | None:
    """Why a service is not there, or None; an unknown name is a mistake of the test."""
    if name not in PROBES:
        raise LookupError(f"no service {name!r}; there are {', '.join(sorted(PROBES))}")
    return PROBES[name]()


def is_required(name: str) -> bool:
    """Whether REQUIRE_SERVICES (a comma list) says that it must be there."""
    return name in REAL_ENVIRONMENT.get("REQUIRE_SERVICES", "").replace(" ", "").split(",")
