"""Shows a folder at one fixed path to a command, whichever folder and user that is.

A home keeps whole paths, so a packed one has to lie where it was made.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from tree import ROOT

__all__ = ["PLACE", "showing"]

PLACE = "/srv/patchyard-fixture"
_SHOW = """
set -e
emptied() {  # a folder but for those of its entries that are named, with / between them
    cd "$1"
    mount -t tmpfs none "$1"
    IFS=/
    for kept in $2; do
        mkdir "$1/$kept"
        mount --no-canonicalize --rbind "./$kept" "$1/$kept"
    done
}
if [ "$(id -u)" = 0 ]; then
    emptied /var/lib "$2"
    mkdir /var/lib/patchyard
    mount --bind "$0/lib" /var/lib/patchyard
fi
emptied /srv "$3"
mkdir "$1"
mount --bind "$0" "$1"
mount -t proc proc /proc
cd "$1/repo"
shift 3
exec setpriv --ambient-caps=-all --inh-caps=-all -- "$@"
"""


def showing(folder: Path, words: Sequence[str], *, user: int | None = None) -> list[str]:
    """Return how `words` are run by `user` where `folder` lies at PLACE.

    It is a machine of its own for processes and mounts: both end with the command, as at a reboot.
    Where `user` is root, the folder's `lib` is shown as /var/lib/patchyard, where root's plans lie.
    Beside it /srv and /var/lib hold only what this checkout and the command need.
    """
    user = os.geteuid() if user is None else user
    own = ("--user", "--map-current-user", "--keep-caps") if user else ()
    apart = ("unshare", *own, "--mount", "--pid", "--fork", "--kill-child=SIGKILL")
    kept = ["/".join(_entries(Path(top), ROOT, Path(words[0]))) for top in ("/var/lib", "/srv")]
    return [*apart, "sh", "-c", _SHOW, str(folder), PLACE, *kept, *words]


def _entries(top: Path, *places: Path) -> list[str]:
    """Return the entries of `top` below which one of the places lies."""
    below = (place.relative_to(top) for place in places if place.is_relative_to(top))
    return sorted({place.parts[0] for place in below if place.parts})
