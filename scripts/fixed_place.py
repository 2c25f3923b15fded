"""Shows a folder at one fixed path to a command, whichever folder and user that is.

A home keeps whole paths, so a packed one has to lie where it was made.
"""

import os
from collections.abc import Sequence
from pathlib import Path

__all__ = ["PLACE", "showing"]

PLACE = "/srv/patchyard-fixture"
_SHOW = """
set -e
if [ "$(id -u)" = 0 ]; then
    mount -t tmpfs none /var/lib
    mkdir /var/lib/patchyard
    mount --bind "$0/lib" /var/lib/patchyard
fi
mount -t tmpfs none /srv
mkdir "$1"
mount --bind "$0" "$1"
mount -t proc proc /proc
cd "$1/repo"
shift
exec setpriv --ambient-caps=-all --inh-caps=-all -- "$@"
"""


def showing(folder: Path, words: Sequence[str], *, user: int | None = None) -> list[str]:
    """Return how `words` are run by `user` where `folder` lies at PLACE.

    It is a machine of its own for processes and mounts: both end with the command, as at a reboot.
    Where `user` is root, the folder's `lib` is shown as /var/lib/patchyard, where root's plans lie.
    """
    user = os.geteuid() if user is None else user
    own = ("--user", "--map-current-user", "--keep-caps") if user else ()
    apart = ("unshare", *own, "--mount", "--pid", "--fork", "--kill-child=SIGKILL")
    return [*apart, "sh", "-c", _SHOW, str(folder), PLACE, *words]
