"""What devcontainers are built by, as trust is bound to it: Dockerfiles, features, their locks.

Not what a Dockerfile copies in: a build runs that as it runs any code of the repository.
"""

import os
from collections.abc import Mapping
from posixpath import dirname, join, normpath

from patchyard.clients.glimpse import Glimpse
from patchyard.clients.inventory import Inventory, Making
from patchyard.domain.devcontainer_parts import dockerfile_in, leads_out
from patchyard.domain.dockerfile import DOCKERFILE_BYTES, LINKS
from patchyard.domain.faults import Fault
from patchyard.domain.features import own_folders

WHAT = "what its devcontainers are built by"
LOCKS = ("devcontainer-lock.json", ".devcontainer-lock.json")
"""Beside a devcontainer.json: which of the features that lie elsewhere are fetched."""


def build_inputs(texts: Mapping[str, str], sight: Glimpse) -> Inventory:
    """Return what the devcontainer.json files `texts`, by path, are built by.

    A devcontainer.json that does not fit is passed over: nothing is built by it.
    """
    made = Making(WHAT)
    for config, text in texts.items():
        for name in LOCKS:
            made.take_all(join(dirname(config), name), sight)
        for folder in own_folders(text, config, sight):
            made.take_all(folder, sight)
        _take_dockerfile(text, config, sight, made)
    return made.whole()


def _take_dockerfile(text: str, config: str, sight: Glimpse, made: Making) -> None:
    """Take the Dockerfile, and each link on the way that a build follows to it."""
    try:
        path = dockerfile_in(text, config)
    except Fault as fault:
        made.refuse(f"{config}: {fault.message}")
        return
    for _ in range(LINKS):
        if not path or leads_out(path):
            return
        above = _link_above(path, sight)
        entry = next(sight.entries(above or path), None)
        if entry is None or entry.path != (above or path) or entry.kind == "folder":
            return
        if entry.kind == "file" and entry.size > DOCKERFILE_BYTES:
            made.refuse(f"{path} has more than {DOCKERFILE_BYTES:,} bytes")
            return
        made.take(entry, sight)
        said = sight.content(entry) if entry.kind == "link" and not above else None
        path = normpath(join(dirname(path), os.fsdecode(said))) if said else ""


def _link_above(path: str, sight: Glimpse) -> str:
    """Return the first folder above `path` that is a link, through which no build goes."""
    names = path.split("/")
    above = ("/".join(names[:end]) for end in range(1, len(names)))
    return next((folder for folder in above if sight.kind(folder) == "link"), "")


__all__ = ["LOCKS", "WHAT", "build_inputs"]
