"""Whose a folder of this machine is, and whether it is that user's as long as its path is.

Under a root engine file operations that no agent code takes part in run as that user (F2.26).
"""

import os
import pwd
import stat
from pathlib import Path

from patchyard.clients.identity import AgentIdentity
from patchyard.domain.errors import EnvironmentUnavailable

HARD_LINKS = Path("/proc/sys/fs/protected_hardlinks")
MAX_LINKS = 40  # as the kernel's own limit


def owner_of(folder: str, agent: AgentIdentity) -> AgentIdentity:
    """Return as whom files in `folder` are to be read and written, where `agent` is its agent.

    The folder's owner under a root engine. The agent itself where the engine is none; where the
    folder is the agent's; where another user than root and the owner could put another folder at
    that path, or hard links to files of others there. Raises OSError for a folder that is none.
    """
    if not agent.is_switched:
        return agent
    found = Path(folder).stat()
    if found.st_uid == agent.uid or not _are_links_protected():
        return agent
    owner = AgentIdentity(uid=found.st_uid, gid=_group_of(found), is_switched=True)
    return owner if _is_steady(folder, owner) else agent


def require_owner(folder: str, agent: AgentIdentity) -> AgentIdentity:
    """Return the owner of `folder`. Raises EnvironmentUnavailable where it is not to be taken."""
    try:
        owner = owner_of(folder, agent)
    except OSError as error:
        raise EnvironmentUnavailable(f"{folder}: {error.strerror}") from error
    if owner == agent:
        raise EnvironmentUnavailable(
            f"{folder} changed its owner, or another user can put another folder there",
            hint="make the same call again: it runs as the agent's user then",
        )
    return owner


def _are_links_protected() -> bool:
    """Whether the kernel lets a user make hard links to the user's own files alone, proc(5)."""
    try:
        return HARD_LINKS.read_text().strip() != "0"
    except OSError:
        return False


def _group_of(found: os.stat_result) -> int:
    try:
        return pwd.getpwuid(found.st_uid).pw_gid
    except KeyError:
        return found.st_gid or found.st_uid


def _is_steady(path: str, owner: AgentIdentity) -> bool:
    """Whether root and the owner alone can change where `path` leads, by any link on the way."""
    at, pending, links = Path("/"), _parts(str(Path(path).absolute())), 0
    while pending:
        name = pending.pop()
        if name == "..":
            at = at.parent  # it was looked at on the way
            continue
        entry = at / name
        found = entry.lstat()
        if not _is_kept(at.lstat(), found, owner):
            return False
        if not stat.S_ISLNK(found.st_mode):
            at = entry
            continue
        links += 1
        if links > MAX_LINKS:
            return False
        target = str(entry.readlink())
        at = Path("/") if target.startswith("/") else at
        pending += _parts(target)
    return True


def _parts(path: str) -> list[str]:
    """Return the names on the way, the first one last."""
    return [name for name in reversed(path.split("/")) if name not in {"", "."}]


def _is_kept(folder: os.stat_result, entry: os.stat_result, owner: AgentIdentity) -> bool:
    """Whether none but root and the owner can put something else in the place of `entry`."""
    if folder.st_uid not in {0, owner.uid}:
        return False
    is_open = folder.st_mode & stat.S_IWOTH
    is_shared = folder.st_mode & stat.S_IWGRP and folder.st_gid not in {0, owner.gid}
    if not (is_open or is_shared):
        return True
    return bool(folder.st_mode & stat.S_ISVTX) and entry.st_uid in {0, owner.uid}


__all__ = ["HARD_LINKS", "MAX_LINKS", "owner_of", "require_owner"]
