"""A repository is input, not authority: what its settings may decide, before and after trust."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from patchyard.domain.budget import UNPRICED_TOKENS
from patchyard.domain.environment import ALIASES, ExecutionEnvironment
from patchyard.domain.project import LimitSettings

# Says what work is, or tightens what it may reach: counts always. Limits count where stricter.
ALWAYS = frozenset({"approvals", "invariants", "limits", "protected_paths", "setup", "validate"})
NEVER = frozenset({"budget", "keep", "slots"})  # are of plans beside those of this repository

UNCONFINED = frozenset(
    {
        str(ExecutionEnvironment.HOST),
        *(name for name, kind in ALIASES.items() if kind == ExecutionEnvironment.HOST),
    }
)


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """What counts of a repository's settings, and what was passed over."""

    body: Mapping[str, Any]  # plain data, to be read as settings
    ignored: tuple[str, ...] = ()  # keys, such as tools.execute_command


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


def admit(body: Any, known: frozenset[str], *, is_trusted: bool) -> Admitted:
    """Leave out what a repository may not decide.

    Keys that nobody knows stay in, so that reading them names the mistake. The kind `host`, shared
    budgets and slots are left out even when the settings are trusted.
    """
    if not isinstance(body, Mapping):
        return Admitted(body=body)
    ignored = [] if is_trusted else [k for k in body if k in known and k not in ALWAYS]
    kept = {key: value for key, value in body.items() if key not in ignored}
    if _is_unconfined(kept.get("execution_environment")):
        del kept["execution_environment"]
        ignored.append("execution_environment")
    for name in sorted(NEVER & set(kept)):
        del kept[name]
        ignored.append(name)
    tools = kept.get("tools")
    if isinstance(tools, Mapping):
        bad = [name for name, entry in tools.items() if _names_host(entry)]
        kept["tools"] = {name: entry for name, entry in tools.items() if name not in bad}
        ignored += [f"tools.{name}" for name in bad]
    return Admitted(body=kept, ignored=tuple(ignored))


def _names_host(entry: Any) -> bool:
    return isinstance(entry, Mapping) and _is_unconfined(entry.get("execution_environment"))


def _is_unconfined(value: Any) -> bool:
    return isinstance(value, str) and value.strip().lower() in UNCONFINED


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
    counted, ignored = said, []
    for field in fields(LimitSettings):
        wanted, present = getattr(said, field.name), getattr(own, field.name)
        is_weaker = wanted is not None and present is not None and wanted > present
        if is_weaker and not is_trusted:
            ignored.append(f"limits.{field.name}")
            counted = replace(counted, **{field.name: None})
    return counted, tuple(ignored)


def warning(ignored: tuple[str, ...], *, is_trusted: bool) -> str:
    """Return the one sentence that names what was passed over; empty when nothing was."""
    if not ignored:
        return ""
    named = ", ".join(ignored)
    if is_trusted:
        return f"ignored from this repository's settings: {named} (never a repository's to decide)"
    return f"ignored from this repository's settings until `agents trust`: {named}"


__all__ = ["ALWAYS", "UNCONFINED", "Admitted", "admit", "digest_of", "stricter", "warning"]
