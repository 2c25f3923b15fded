"""Credentials that a server is entrusted with: named in settings, filled in at its start. Pure.

A value of a server's `env` may name variables of the engine, `${NAME}`. Such a server runs in an
environment of its own, and what comes back from it is shown without their values.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from patchyard.domain.errors import UsageError
from patchyard.domain.secret_forms import replaced

HIDDEN = "[hidden]"
LEAST_HIDDEN = 4  # characters: shorter ones stand in too much that is none
NAMED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

Lookup = Callable[[str], str | None]  # the value of a variable of the engine


def names_in(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that the values of `env` name."""
    return tuple(dict.fromkeys(name for text in env.values() for name in NAMED.findall(text)))


def missing_in(env: Mapping[str, str], lookup: Lookup) -> tuple[str, ...]:
    """Return those of the named variables that are not set, or empty."""
    return tuple(name for name in names_in(env) if not lookup(name))


def filled(env: Mapping[str, str], lookup: Lookup) -> Mapping[str, str]:
    """Return `env` with the values in place of the names. Raises UsageError for one not set."""
    missing = missing_in(env, lookup)
    if missing:
        raise UsageError(
            f"the variable {missing[0]} is not set", hint=f"set {missing[0]} where the engine runs"
        )
    return {name: NAMED.sub(lambda m: lookup(m[1]) or "", text) for name, text in env.items()}


def secrets_of(env: Mapping[str, str], lookup: Lookup) -> Sequence[str]:
    """Return what must not be shown: the values that are named, as text and as JSON writes them."""
    values = [lookup(name) or "" for name in names_in(env)]
    forms = [form for value in values for form in (value, json.dumps(value)[1:-1])]
    found = {form for form in forms if len(form) >= LEAST_HIDDEN}
    return sorted(found, key=lambda form: (-len(form), form))


def masked(value: Any, secrets: Sequence[str]) -> Any:
    """Return texts, at any depth, without `secrets`, the longest first, in any usual writing."""
    if isinstance(value, str):
        value = replaced(value, secrets, HIDDEN)
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
        return value
    if isinstance(value, Mapping):
        return {masked(key, secrets): masked(item, secrets) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(item, secrets) for item in value]
    return value


__all__ = [
    "HIDDEN",
    "LEAST_HIDDEN",
    "NAMED",
    "Lookup",
    "filled",
    "masked",
    "missing_in",
    "names_in",
    "secrets_of",
]
