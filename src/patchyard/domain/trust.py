"""A repository is input, not authority: what its settings may decide, before and after trust."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from patchyard.domain.budget import UNPRICED_TOKENS
from patchyard.domain.environment import ALIASES, IN_PLACE, ExecutionEnvironment
from patchyard.domain.environment_limits import KEY, EnvironmentLimits
from patchyard.domain.limit_settings import LimitSettings
from patchyard.domain.resource import Resource
from patchyard.domain.settings import RESERVED

MARK_DIGITS = 16  # of a file's SHA-256: marks tell which file changed, and no trust rests on them
NAMED = 3  # of the files that changed
Said = TypeVar("Said", LimitSettings, EnvironmentLimits)

# Says what work is, or tightens what it may reach: counts always. Limits count where stricter.
ALWAYS = frozenset(
    {"approvals", KEY, "gates", "invariants", "limits", "protected_paths", "setup", "validate"}
)
# Of plans beside those of this repository, or of what other trees and servers get.
NEVER = frozenset({"budget", "clone_secrets", "keep", "pool", "setup_share", "slots"})

PLACES = ("execution_environment", "target_resource")  # where a tool's setting names one

UNCONFINED = frozenset(
    {
        *map(str, (*IN_PLACE, ExecutionEnvironment.SSH)),
        *(name for name, kind in ALIASES.items() if kind in IN_PLACE),
    }
)


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """What counts of a repository's settings, and what was passed over."""

    body: Mapping[str, Any]  # plain data, to be read as settings
    ignored: tuple[str, ...] = ()  # keys, such as tools.execute_command
    until_trust: tuple[str, ...] = ()  # those that count as soon as there is trust
    never: tuple[str, ...] = ()  # those that trust does not bring either


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Whether a repository's settings are trusted as they are now."""

    is_given: bool = False
    void: str = ""  # why trust that was given counts no longer; empty: it counts, or none was given


def marks_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return a mark of each content by its path, to tell later which of them changed."""
    return {path: hashlib.sha256(said).hexdigest()[:MARK_DIGITS] for path, said in files.items()}


def void_because(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return why trust is void, by the marks of the files then and now; empty ones: not known.

    Paths that begin with `/link/` or `/large/` are those of links and of large files.
    """
    old, new = _by_path(before), _by_path(now)
    told = [
        f"{path} {'is new' if path not in old else 'is gone' if path not in new else 'has changed'}"
        for path in sorted(old.keys() | new.keys() if old and new else ())
        if old.get(path) != new.get(path)
    ]
    more = [f"{len(told) - NAMED} more"] if len(told) > NAMED else []
    what = ", ".join([*told[:NAMED], *more]) or "its settings have changed"
    return f"this repository's trust is void: {what} since"


def _by_path(marks: Mapping[str, str]) -> dict[str, str]:
    """Return kind and mark by the path as it lies in the repository."""
    kinds = {path: path.split("/", 2) if path.startswith("/") else ("", "", path) for path in marks}
    return {path: f"{kind} {marks[name]}" for name, (_, kind, path) in kinds.items()}


def digest_of(files: Mapping[str, bytes]) -> str:
    """Return the hash of settings files by path and content; empty when there are none."""
    if not files:
        return ""
    whole = hashlib.sha256()
    for path in sorted(files):
        for part in (path.encode("utf-8", "surrogateescape"), files[path]):
            whole.update(len(part).to_bytes(8, "big"))
            whole.update(part)
    return whole.hexdigest()


def bare_in(linked: Iterable[Resource]) -> frozenset[str]:
    """Return the names of those linked resources that have no walls."""
    places = {each.name: each.carries or each.site.kind for each in linked if each.site}
    return frozenset(name for name, kind in places.items() if str(kind) in UNCONFINED)


def admit(
    body: Any, known: frozenset[str], *, is_trusted: bool, bare: Collection[str] = ()
) -> Admitted:
    """Leave out what a repository may not decide.

    Keys that nobody knows stay in, so that reading them names the mistake. Places without walls
    (`host`, `mock`, `ssh`, and linked resources by their names: `bare`), shared budgets and slots
    are left out even when the settings are trusted.
    """
    if not isinstance(body, Mapping):
        return Admitted(body=body)
    early = [] if is_trusted else [k for k in body if k in known and k not in ALWAYS]
    unconfined = UNCONFINED.union(bare)
    never, tools = _never(body, unconfined), body.get("tools")
    kept = {key: value for key, value in body.items() if key not in {*early, *never}}
    hosts: list[str] = []
    if isinstance(tools, Mapping):
        hosts = [name for name, entry in tools.items() if _names_host(entry, unconfined)]
        if "tools" in kept:
            kept["tools"] = {name: entry for name, entry in tools.items() if name not in hosts}
    of_tools = [f"tools.{name}" for name in hosts]
    ignored = [*early, *(name for name in never if name not in early)]
    # Reserved keys are refused after trust, with the place in the file.
    hopeless = {*never, *RESERVED, *(["tools"] if tools and len(hosts) == len(tools) else [])}
    return Admitted(
        body=kept,
        ignored=(*ignored, *(of_tools if "tools" in kept else [])),
        until_trust=tuple(name for name in early if name not in hopeless),
        never=(*never, *of_tools, *(name for name in early if name in RESERVED)),
    )


def _never(body: Mapping[str, Any], unconfined: Collection[str]) -> list[str]:
    """Return the whole keys of `body` that count for nothing even when they are trusted."""
    is_host = _is_unconfined(body.get("execution_environment"), unconfined)
    return [*(["execution_environment"] if is_host else []), *sorted(NEVER & set(body))]


def _names_host(entry: Any, unconfined: Collection[str]) -> bool:
    return isinstance(entry, Mapping) and any(
        _is_unconfined(entry.get(key), unconfined) for key in PLACES
    )


def _is_unconfined(value: Any, unconfined: Collection[str]) -> bool:
    """Whether it is such a word or, exactly, such a name."""
    if not isinstance(value, str):
        return False
    return value.strip() in unconfined or value.strip().lower() in UNCONFINED


def stricter(
    own: LimitSettings, said: LimitSettings | None, *, is_trusted: bool
) -> tuple[LimitSettings, tuple[str, ...]]:
    """Return the limits a repository may set where `own` are in force, and those passed over.

    Stricter ones always count; weaker ones only when trusted.
    """
    if said is None:
        return LimitSettings(), ()
    if own.max_tokens is None:  # not said, but a model without a price is bounded all the same
        own = replace(own, max_tokens=UNPRICED_TOKENS)
    return _not_weaker(own, said, key="limits", is_trusted=is_trusted)


def stricter_environments(
    own: EnvironmentLimits, said: EnvironmentLimits | None, *, is_trusted: bool
) -> tuple[EnvironmentLimits, tuple[str, ...]]:
    """Return the same of what environments may use."""
    said = said or EnvironmentLimits()
    return _not_weaker(own, said, key=KEY, is_trusted=is_trusted)


def _not_weaker(
    own: Said, said: Said, *, key: str, is_trusted: bool
) -> tuple[Said, tuple[str, ...]]:
    counted, ignored = said, []
    for name in vars(said):
        wanted, present = getattr(said, name), getattr(own, name)
        is_weaker = wanted is not None and present is not None and wanted > present
        if is_weaker and not is_trusted:
            ignored.append(f"{key}.{name}")
            counted = replace(counted, **{name: None})
    return counted, tuple(ignored)


def warning(until_trust: tuple[str, ...], never: tuple[str, ...], *, void: str = "") -> str:
    """Return the one sentence that names what was passed over; empty when nothing was.

    `void` is why trust counts no longer: told where what was passed over needs trust.
    """
    early = f" until `agents trust`: {', '.join(until_trust)}" if until_trust else ""
    always = f": {', '.join(never)} (never a repository's to decide)" if never else ""
    if not early and not always:
        return ""
    between = "; with or without it" if early and always else ""
    lead = f"{void}; ignored from its" if void and early else "ignored from this repository's"
    return f"{lead} settings{early}{between}{always}"


__all__ = [
    "ALWAYS",
    "UNCONFINED",
    "Admitted",
    "Trust",
    "admit",
    "bare_in",
    "digest_of",
    "marks_of",
    "stricter",
    "stricter_environments",
    "void_because",
    "warning",
]
