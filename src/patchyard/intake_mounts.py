"""Which places of the host a plan may show: `--mount` and `workspace.include`, checked once."""

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from patchyard.clients.overmounts import overmounted
from patchyard.config import places
from patchyard.configuration import Configuration
from patchyard.domain.faults import Fault
from patchyard.domain.plan import PlanSpec
from patchyard.domain.reach import KEY_NAMES, is_key_name, is_within
from patchyard.domain.routing import sites_of

MISSING = "make it first, or name one that is there"


def mounts_of(
    settings: Configuration, environ: Mapping[str, str], checkout: str
) -> tuple[str, ...]:
    """Return the mounts that settings say, checked. Raises UsageError naming where one was said."""
    try:
        return checked_mounts(settings.value("mounts") or (), environ, checkout)
    except Fault as fault:
        raise settings.refused("mounts", fault) from fault


def require_mounts_fit(spec: PlanSpec, settings: Configuration) -> None:
    """Raise UsageError for a mount that would hide a part of a place the plan may work in.

    The error names where the mount was said.
    """
    kinds = dict.fromkeys(spec.walls_at(site) for site in sites_of(spec)) if spec.mounts else ()
    for number, mount in enumerate(spec.mounts):
        refusals = (overmounted(mount.rpartition(":")[0], kind) for kind in kinds)
        if refusal := next(filter(None, refusals), None):
            raise settings.refused("mounts", Fault.at(("mounts", number), refusal)) from refusal


def includes_of(settings: Configuration, checkout: str) -> tuple[str, ...]:
    """Return the includes that settings say. Raises UsageError naming where one was said."""
    try:
        return checked_includes(settings.value("include") or (), checkout)
    except Fault as fault:
        raise settings.refused("include", fault) from fault


def checked_mounts(
    given: Sequence[str], environ: Mapping[str, str], checkout: str
) -> tuple[str, ...]:
    """Return each mount as `REAL-PATH:ro|rw`. Raises Fault naming what is not shown, and why.

    Refused: `/`, the home and what holds it, the engine's state, sockets, the source checkout.
    """
    home = os.path.realpath(environ.get("HOME", "/"))
    state = os.path.realpath(places(environ).home)
    checked = []
    for number, text in enumerate(given):
        path, _, mode = text.rpartition(":") if text.endswith((":ro", ":rw")) else (text, "", "ro")
        real = os.path.realpath(Path(path).expanduser())
        if not _is_there(real):
            there = f"{real} is not there" if real != path else "it is not there"
            raise Fault(("mounts", number), f"{path} is refused: {there}", hint=MISSING)
        why = _refusal(real, home=home, state=state, checkout=checkout)
        if why:
            raise Fault(
                ("mounts", number),
                f"{path} is refused: {why}",
                hint="name a narrower folder, or copy it",
            )
        checked.append(f"{real}:{mode}")
    return tuple(checked)


def _is_there(real: str) -> bool:
    try:
        Path(real).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # who may not look says why
    return True


def _refusal(real: str, *, home: str, state: str, checkout: str) -> str:
    try:
        mode = Path(real).stat().st_mode
    except OSError as error:
        return f"{error.strerror}"
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        return "only folders and files are shown, no sockets or devices"
    held = ((home, "your home"), (state, "the engine's state"), (checkout, "the source checkout"))
    for place, name in held:
        if is_within(place, real):
            return f"it is or holds {name}"
    for place, name in held[1:]:
        if is_within(real, place):
            return f"it lies in {name}"
    if is_within(real, home) and any(is_key_name(part) for part in real[len(home) :].split("/")):
        return "keys and credentials lie there"
    return ""


def checked_includes(given: Sequence[str], checkout: str) -> tuple[str, ...]:
    """Return the ignored folders that come along read-only. Raises Fault for what may not.

    Each is a folder below the checkout, reached through no link; never `.env*` or a key file.
    """
    checked = []
    for number, text in enumerate(given):
        place = ("include", number)
        parts = [part for part in text.split("/") if part not in {"", "."}]
        path = "/".join(parts)
        whole = Path(checkout, *parts)
        if text.startswith("/") or ".." in parts or not parts or parts[0] == ".git":
            raise Fault(place, f"{text!r} is not a folder below the checkout")
        if any(is_key_name(part) for part in parts):
            raise Fault(
                place,
                f"{text!r} is refused: it looks like a key or an environment file",
                hint=f"never shown: {', '.join(KEY_NAMES)}",
            )
        if os.path.realpath(whole) != str(whole) or not whole.is_dir():
            raise Fault(place, f"{text!r} is not a folder below the checkout")
        checked.append(path)
    return tuple(dict.fromkeys(checked))


__all__ = [
    "MISSING",
    "checked_includes",
    "checked_mounts",
    "includes_of",
    "mounts_of",
    "require_mounts_fit",
]
