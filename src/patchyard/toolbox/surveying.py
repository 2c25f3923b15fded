"""What lies on a machine that a sandbox may show of it: places of the system, by names it is given.

The engine asks it about its own machine, and over SSH about another one. Knows no list of its own.
"""

from __future__ import annotations

import glob
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator, Sequence

READ_ONLY, LINK, COPY = "read-only", "link", "copy"
SHELLS = ("/bin/bash", "/bin/sh")


def survey(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return what there is of `wanted`: `system` and `etc`, `masked`, `shell`.

    A place is a row: its path inside, how it is shown, and its path out here or a link's text.

    Given are names of places (`system`, and below /etc `etc`, and `beginnings` of such), files that
    nobody may read (`masked`, and `keyed` below each installation in the globs `installations`),
    and how large a file is copied (`copied_bytes`).
    """
    system, most = wanted["system"], wanted["copied_bytes"]
    beginnings = tuple(wanted["beginnings"])
    with os.scandir("/etc") as entries:
        further = [each.name for each in entries if each.name.startswith(beginnings)]
    named = ["/etc/" + name for name in (*wanted["etc"], *further)]
    keyed = [
        prefix + "/" + name
        for pattern in wanted["installations"]
        for prefix in sorted(glob.glob(pattern))
        for name in wanted["keyed"]
    ]
    return {
        "system": [row for name in system for row in _as_here(name, system, most)],
        "etc": [row for name in named for row in _as_here(name, system, most)],
        "masked": [path for path in (*wanted["masked"], *keyed) if _is_itself(path)],
        "shell": next((path for path in SHELLS if os.access(path, os.X_OK)), SHELLS[-1]),
    }


def _is_itself(path: str) -> bool:
    """Whether something is there, and no link: what a link leads to has a place of its own."""
    return os.access(path, os.F_OK) and os.path.realpath(path) == path


def _as_here(path: str, system: Sequence[str], copied_bytes: int) -> Iterator[Iterable[str]]:
    """Yield a place as it is: a link to what is visible stays one, other links are followed."""
    try:
        text = os.readlink(path)
    except FileNotFoundError:
        return
    except OSError:
        yield _as_it_is(path, path, copied_bytes)
        return
    real = os.path.realpath(path)
    if any(real == place or real.startswith(place + "/") for place in system):
        yield [path, LINK, text]
    elif os.access(real, os.F_OK):
        yield _as_it_is(path, real, copied_bytes)


def _as_it_is(target: str, real: str, copied_bytes: int) -> Iterable[str]:
    """Show a small file as a copy, which is quicker than a mount, and all else by a mount."""
    facts = os.stat(real)
    is_open = stat.S_ISREG(facts.st_mode) and facts.st_mode & stat.S_IROTH
    return [target, COPY if is_open and facts.st_size < copied_bytes else READ_ONLY, real]


__all__ = ["COPY", "LINK", "READ_ONLY", "SHELLS", "survey"]
