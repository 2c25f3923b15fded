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

    Raises UsageError for `~NAME` of nobody, and for a relative PATCHYARD_HOME.
    """
    own = _chosen(environ, "WORKSPACE_DIR")
    tasks = own.absolute() / "tasks" if own else None
    home = _chosen(environ, "PATCHYARD_HOME")
    if home:
        if not home.is_absolute():
            raise UsageError(
                f"PATCHYARD_HOME is {home}, a relative path: each folder would have a home of its"
                " own, with other plans",
                hint=f"write the whole path: PATCHYARD_HOME={home.absolute()}",
            )
        return Places(home=home, tasks=tasks)
    data = environ.get("XDG_DATA_HOME")
    folder = Path(data) if data else Path(environ.get("HOME", "/")) / ".local" / "share"
    return Places(home=folder.absolute() / "patchyard", tasks=tasks)


def _chosen(environ: Mapping[str, str], name: str) -> Path | None:
    """Return the folder that a variable names, relative as it may be; None when it names none."""
    text = environ.get(name)
    try:
        return Path(text).expanduser() if text else None
    except RuntimeError as error:
        raise UsageError(
            f"{name} is {text}, and there is no such user", hint="write the whole path"
        ) from error


__all__ = ["Places", "places"]
