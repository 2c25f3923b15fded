"""Why bubblewrap does not start here, and the narrow cure. Pure, from what it said and facts."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.deaths import FREE_MEMORY
from patchyard.toolbox.last_words import last_words

APPARMOR_SWITCH = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
DEBIAN_SWITCH = "/proc/sys/kernel/unprivileged_userns_clone"
NAMESPACES = "/proc/sys/user/max_user_namespaces"
MANAGED = "/run/systemd/container"
TEXTS = (APPARMOR_SWITCH, DEBIAN_SWITCH, MANAGED, NAMESPACES)
BUBBLEWRAP = "bwrap: "  # begins what it says itself
MARKS = ("/.dockerenv", "/run/.containerenv")
"""Files that are read, and those whose being there says that it is a container."""

APPARMOR_CURE = (
    "allow it to bubblewrap alone: `sudo apt install apparmor-profiles && sudo cp "
    "/usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ && sudo "
    "apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict`; the sysctl can stay as it is"
)
CONTAINER_CURE = (
    "start the container with `--cap-add SYS_ADMIN --security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined`, or, since the container is a wall itself, choose "
    "`--in host` inside it"
)
ROOT_CURE = "give the engine CAP_SYS_ADMIN, or run it as an ordinary user"


@dataclass(frozen=True, kw_only=True)
class Obstacles:
    """Facts of a machine that keep sandboxes from starting."""

    is_root: bool
    is_container: bool
    has_apparmor_rule: bool
    allows_namespaces: bool


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What is wrong, in one sentence, and what cures it."""

    cause: str
    cure: str
    has_broken: bool = False  # bubblewrap had no objection: what it started broke


def read_obstacles(
    read: Callable[[str], str] | None = None,
    *,
    exists: Callable[[str], bool] = os.path.exists,
    is_root: bool | None = None,
) -> Obstacles:
    """Look at this machine; `read` returns a file's text, "" when there is none.

    With all three given, look at another one.
    """
    read = read or _read
    return Obstacles(
        is_root=os.geteuid() == 0 if is_root is None else is_root,
        is_container=bool(read(MANAGED)) or any(map(exists, MARKS)),
        has_apparmor_rule=read(APPARMOR_SWITCH).strip() == "1",
        allows_namespaces=read(DEBIAN_SWITCH).strip() != "0" and read(NAMESPACES).strip() != "0",
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def diagnose(said: str, facts: Obstacles) -> Diagnosis:
    """Return cause and cure for what bubblewrap `said` when it failed. Pure."""
    line = next(iter(last_words(said).splitlines()), "it said nothing")
    is_refused = any(
        sign in said for sign in ("Operation not permitted", "Permission denied", "No space left")
    )
    is_namespace = "namespace" in said or "uid map" in said or "loopback" in said
    if is_refused and is_namespace and not facts.is_root:
        return _refused_to_user(line, facts)
    if is_refused and is_namespace:
        if facts.is_container:
            return Diagnosis(
                cause=f"this container may not make namespaces ({line})", cure=CONTAINER_CURE
            )
        return Diagnosis(cause=f"root may not make namespaces here ({line})", cure=ROOT_CURE)
    if "Can't mkdir" in said or "Can't create" in said:
        return Diagnosis(
            cause=f"a place to mount on is missing and cannot be made ({line})",
            cure="make that folder, or leave that mount out",
        )
    if not any(row.startswith(BUBBLEWRAP) for row in said.splitlines()):
        return Diagnosis(
            cause=f"the sandbox did not start: {line}",
            cure=f"`agents doctor` shows what works here; where the kernel ended it, {FREE_MEMORY}",
            has_broken=True,
        )
    return Diagnosis(
        cause=f"the sandbox did not start: {line}",
        cure="`agents doctor` shows what works here; `--in host` runs unconfined",
    )


def _refused_to_user(line: str, facts: Obstacles) -> Diagnosis:
    if not facts.allows_namespaces:
        return Diagnosis(
            cause=f"user namespaces are switched off on this machine ({line})",
            cure="`sudo sysctl -w user.max_user_namespaces=15000` "
            "(Debian before 11: also kernel.unprivileged_userns_clone=1)",
        )
    if facts.has_apparmor_rule:
        return Diagnosis(
            cause=f"AppArmor keeps programs without a profile from making user namespaces ({line})",
            cure=APPARMOR_CURE,
        )
    if facts.is_container:
        return Diagnosis(
            cause=f"this container may not make user namespaces ({line})", cure=CONTAINER_CURE
        )
    return Diagnosis(
        cause=f"this user may not make user namespaces ({line})",
        cure="ask for user namespaces (a security module or a seccomp filter refuses them)",
    )


__all__ = ["BUBBLEWRAP", "MARKS", "TEXTS", "Diagnosis", "Obstacles", "diagnose", "read_obstacles"]
