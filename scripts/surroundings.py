"""The environment that every suite runs in: a user who has nothing yet. Pure but for the folder."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["cleaned", "home"]

_KEPT = frozenset({"CI", "LANG", "LC_ALL", "PATCHYARD_SOAK", "TERM", "TMPDIR", "USER"})
_KEPT_PREFIXES = ("COV_", "COVERAGE_", "PYTEST_")
_XDG = ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR")


def cleaned(real: Mapping[str, str]) -> dict[str, str]:
    """What of the real environment comes along; the running Python's folder leads the PATH."""
    kept = {n: v for n, v in real.items() if n in _KEPT or n.startswith(_KEPT_PREFIXES)}
    here = str(Path(sys.executable).parent)
    return kept | {"PATH": os.pathsep.join([here, real.get("PATH", os.defpath)])}


def home(folder: Path) -> dict[str, str]:
    """Makes an empty home and names it; git commits of the tests have an author."""
    folder.mkdir()
    person = {"NAME": "A Tester", "EMAIL": "tester@example.invalid"}
    return {
        "HOME": str(folder),
        "PATCHYARD_HOME": str(folder / ".local/share/patchyard"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        **{f"XDG_{name}": str(folder / f"xdg_{name.lower()}") for name in _XDG},
        **{f"GIT_{role}_{k}": v for role in ("AUTHOR", "COMMITTER") for k, v in person.items()},
    }
