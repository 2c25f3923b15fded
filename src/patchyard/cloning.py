"""From a repository's address to a checkout of ours: for plans, projects and who embeds us."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from patchyard.clients.clones import Brought, Clones
from patchyard.config import places
from patchyard.configuration import configure
from patchyard.domain.errors import NoRoom, UsageError
from patchyard.domain.holdings import Holdings
from patchyard.domain.machine import FREE_SPACE
from patchyard.domain.remotes import is_remote
from patchyard.intake import Asked
from patchyard.upkeep import rules

IN_PLACES = ("merge", "worktree")  # where a hand-over writes into a checkout that a user works in


@dataclass(frozen=True, kw_only=True)
class Localized:
    """What was asked, of a checkout on this machine."""

    asked: Asked
    is_clone: bool = False  # of ours, where no user works
    notes: tuple[str, ...] = ()


def localized(asked: Asked, environ: Mapping[str, str], holdings: Holdings) -> Localized:
    """Clone, or fetch again, what an address names; anything else stays as it is. Blocking.

    A project of a clone is fetched again too. Raises as `brought`, UsageError for a hand-over into
    the checkout of a clone.
    """
    url = asked.repository
    if asked.project is not None:
        top = Path(holdings.project(asked.project).repository)
        url = Clones(places(environ).home, environ).url_of(top)
    if not is_remote(url):
        return Localized(asked=asked)
    require_own_place(asked.apply_to)
    found = brought(url, asked.ref, environ)
    repository = str(found.top) if asked.project is None else asked.repository
    made = replace(asked, repository=repository, ref=found.commit)
    return Localized(asked=made, is_clone=True, notes=(told(found),))


def brought(url: str, ref: str | None, environ: Mapping[str, str]) -> Brought:
    """Return the clone of a repository, as its server has it now. Blocking.

    Raises UsageError, Unavailable, NoRoom, Conflict.
    """
    clones = Clones(places(environ).home, environ)
    clones.place_of(url)  # what is no address is refused first
    secrets = configure(environ).value("clone_secrets") or ()
    return clones.bring(url, ref, rules=secrets, most_bytes=_room(environ))


def require_own_place(apply_to: str | None) -> None:
    """Raise UsageError for a hand-over into the checkout of a clone, where no user works."""
    if apply_to in IN_PLACES:
        raise UsageError(
            f"--apply {apply_to} is for a checkout that you work in, and a repository by its"
            " address has none",
            hint="take --apply branch or --apply patch, or clone it yourself and name the folder",
        )


def told(found: Brought) -> str:
    """Return one sentence on what was cloned, and where it lies."""
    what = "cloned" if found.is_new else "fetched"
    left = f"; the checkout stays as it is, for {found.left}" if found.left else ""
    return f"{what} {found.remote.url} at {found.commit[:12]} into {found.top}{left}"


def _room(environ: Mapping[str, str]) -> int:
    """Return the bytes that a clone may take: what is free, without what must stay so."""
    home, needed = places(environ).home, rules(environ).free
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    free = shutil.disk_usage(home).free
    if free <= needed:
        raise NoRoom(
            f"{home} has {free:,} bytes free, and {needed:,} must stay so: nothing is cloned",
            hint=FREE_SPACE,
        )
    return free - needed


__all__ = ["IN_PLACES", "Localized", "brought", "localized", "require_own_place", "told"]
