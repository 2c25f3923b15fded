"""The host keys that a user's files of known hosts hold, read as OpenSSH reads them.

OpenSSH passes over a line that it cannot read, and over a file; the SSH library gives up there.
"""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

NONE_KNOWN = b"# no host is known\n"
"""What knows no host at all; an empty list would make the library take files of its own choice."""


def read_known_hosts(library: Any, files: Iterable[str | Path]) -> Any:
    """Return what `files` say, for `library`, which is asyncssh; see sshd(8), SSH_KNOWN_HOSTS.

    A line that is no UTF-8 or no entry counts for nothing, and no other line with it.
    """
    lines = [line for place in files for line in _lines(Path(place))]
    with contextlib.suppress(ValueError):
        return library.import_known_hosts("\n".join(lines) + "\n")
    known = library.import_known_hosts(NONE_KNOWN.decode("ascii"))
    for line in lines:
        with contextlib.suppress(ValueError):
            known.load(line)
    return known


def _lines(place: Path) -> Iterable[str]:
    try:
        content = place.read_bytes()
    except OSError:
        return
    for line in content.split(b"\n"):
        with contextlib.suppress(UnicodeDecodeError):
            text = line.decode("utf-8")
            if len(text.splitlines()) <= 1:  # else the library sees several
                yield text


__all__ = ["NONE_KNOWN", "read_known_hosts"]
