"""Where things lie, from the environment. Knows no adapter."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from patchyard.domain.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Places:
    """The folders of one installation."""

    home: Path  # PATCHYARD_HOME: 0700, files 0600
    tasks: Path | None = None  # where workspaces lie (D14); None: chosen by the strategy

    @property
    def database(self) -> Path:
        """The SQLite journal."""
        return self.home / "patchyard.db"


def places(environ: Mapping[str, str]) -> Places:
    """Return the folders that `environ` chooses (default: the XDG data directory).

    Raises UsageError for `~NAME` where there is no such user, and for a relative path.
    """
    own = _chosen(environ, "WORKSPACE_DIR", "each folder would have workspaces of its own")
    home = _chosen(
        environ,
        "PATCHYARD_HOME",
        "each folder would have a home of its own, with other plans",
    )
    tasks = own / "tasks" if own else None
    if home:
        return Places(home=home, tasks=tasks)
    data = environ.get("XDG_DATA_HOME")
    folder = Path(data) if data else Path(environ.get("HOME", "/")) / ".local" / "share"
    return Places(home=folder.absolute() / "patchyard", tasks=tasks)


def _chosen(environ: Mapping[str, str], name: str, otherwise: str) -> Path | None:
    """Return the folder that a variable names; None when it names none.

    `otherwise`: what would be where a relative path counted.
    """
    text = environ.get(name)
    if not text:
        return None
    try:
        folder = Path(text).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"{name} is {text}, and there is no such user", hint="write the whole path"
        ) from error
    if not folder.is_absolute():
        raise UsageError(
            f"{name} is {folder}, a relative path: {otherwise}",
            hint=f"write the whole path: {name}={folder.absolute()}",
        )
    return folder


__all__ = ["Places", "places"]
