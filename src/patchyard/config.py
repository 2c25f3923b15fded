"""Where things lie, from the environment. Knows no adapter."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Places:
    """The folders of one installation."""

    home: Path  # PATCHYARD_HOME: 0700, files 0600
    tasks: Path | None = None  # where workspaces lie (D14); None: chosen by the strategy

    @property
    def database(self) -> Path:
        """The SQLite journal."""
        return self.home / "patchyard.db"

    @property
    def claims(self) -> Path:
        """Lock files, one a plan."""
        return self.home / "claims"


def places(environ: Mapping[str, str]) -> Places:
    """Return the folders that `environ` chooses (default: the XDG data directory)."""
    own = environ.get("WORKSPACE_DIR")
    tasks = Path(own).expanduser().absolute() / "tasks" if own else None
    chosen = environ.get("PATCHYARD_HOME")
    if chosen:
        return Places(home=Path(chosen).expanduser().absolute(), tasks=tasks)
    data = environ.get("XDG_DATA_HOME")
    folder = Path(data) if data else Path(environ.get("HOME", "/")) / ".local" / "share"
    return Places(home=folder.absolute() / "patchyard", tasks=tasks)


__all__ = ["Places", "places"]
