"""The user that agent code runs as: never one that is root on the host, never the user's own.

A pure rule; `agent_identity` asks the machine for its facts.
"""

import os
import pwd
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from patchyard.domain.errors import EnvironmentUnavailable

FIRST_UID = 60_900
"""Where the search starts: systemd's table of UIDs lists 60706 to 61183 as unused, and the range
is inside the 65536 ids that a container usually maps."""
LAST_UID = 61_183


@dataclass(frozen=True, kw_only=True)
class AgentIdentity:
    """Who agent code is."""

    uid: int
    gid: int
    is_switched: bool  # True when the engine is root and this is somebody else


def choose_identity(
    engine: tuple[int, int],
    *,
    checkout_owner: int | None,
    has_account: Callable[[int], bool],
    configured: int | None = None,
) -> AgentIdentity:
    """Return the identity for an engine of `engine` (UID and GID). Pure.

    Not root: the engine's own. Root: `configured`, or the first free UID from FIRST_UID, without
    an account and not the owner of the checkout. Raises EnvironmentUnavailable when a configured
    one breaks that rule or none is free.
    """
    uid, gid = engine
    if uid != 0:
        return AgentIdentity(uid=uid, gid=gid, is_switched=False)
    if configured is not None:
        if configured <= 0 or configured == checkout_owner or has_account(configured):
            raise EnvironmentUnavailable(
                f"agent UID {configured} is root, owns the checkout or has an account",
                hint=f"leave it unset, or take a free UID such as {FIRST_UID}",
            )
        return AgentIdentity(uid=configured, gid=configured, is_switched=True)
    for candidate in range(FIRST_UID, LAST_UID + 1):
        if candidate != checkout_owner and not has_account(candidate):
            return AgentIdentity(uid=candidate, gid=candidate, is_switched=True)
    raise EnvironmentUnavailable(
        f"each UID from {FIRST_UID} to {LAST_UID} has an account",
        hint="configure the agent's UID",
    )


def agent_identity(
    *, checkout_owner: int | None = None, configured: int | None = None
) -> AgentIdentity:
    """Return the identity for this process; see `choose_identity`."""
    return choose_identity(
        (os.geteuid(), os.getegid()),
        checkout_owner=checkout_owner,
        has_account=has_account,
        configured=configured,
    )


def becoming(identity: AgentIdentity) -> list[str]:
    """Return the words before a command that make a root engine's program the agent's, for good.

    None where the engine is no root. Raises EnvironmentUnavailable.
    """
    if not identity.is_switched:
        return []
    program = shutil.which("setpriv", path="/usr/bin:/bin")
    if program is None:
        raise EnvironmentUnavailable("setpriv is not installed", hint="apt install util-linux")
    return [
        *(program, f"--reuid={identity.uid}", f"--regid={identity.gid}", "--clear-groups"),
        *("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"),
    ]


def has_account(uid: int) -> bool:
    """Whether the user database knows `uid`."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


__all__ = [
    "FIRST_UID",
    "LAST_UID",
    "AgentIdentity",
    "agent_identity",
    "becoming",
    "choose_identity",
    "has_account",
]
