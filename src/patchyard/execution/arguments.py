"""Whether what a program gives is of the type that is wanted, told in the words of other errors."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from patchyard.domain.environment import Limits, Mount
from patchyard.domain.environment_limits import EnvironmentLimits
from patchyard.domain.errors import UsageError
from patchyard.domain.network_settings import NetworkSettings

Types = tuple[type, ...]

TEXT: Types = (str,)
PATH: Types = (str, os.PathLike)
OPTIONAL_TEXT: Types = (str, type(None))
WORDS: Mapping[type, str] = {
    str: "text",
    os.PathLike: "path",
    bool: "bool",
    int: "whole number",
    float: "number",
    tuple: "tuple",
    list: "list",
    Mapping: "mapping of names to texts",
    type(None): "None",
}
SANDBOX: Mapping[str, Types] = {
    "kind": TEXT,
    "workspace": PATH,
    "is_writable": (bool,),
    "image": PATH,
    "address": TEXT,
    "variables": (Mapping,),
    "limits": (Limits, EnvironmentLimits),
    "mounts": (tuple, list),
    "network": (NetworkSettings,),
    "secrets": (tuple, list),
}


def require(name: str, value: object, kinds: Types) -> None:
    """Raise UsageError where `value` is of none of the types; a bool is no number."""
    is_number = isinstance(value, bool) and bool not in kinds
    if isinstance(value, kinds) and not is_number:
        return
    wanted = " or ".join(WORDS.get(kind, kind.__name__) for kind in kinds)
    raise UsageError(
        f"{name} is a {type(value).__name__}, and is to be a {wanted}",
        hint=f"give {name} a {wanted}",
    )


def require_each(name: str, values: Sequence[object], kinds: Types) -> None:
    """Raise UsageError where one of `values` is of none of the types."""
    for value in values:
        require(f"each of {name}", value, kinds)


def require_variables(name: str, values: object) -> None:
    """Raise UsageError where `values` is no mapping of texts to texts."""
    require(name, values, (Mapping,))
    for key, value in dict(values).items():  # type: ignore[call-overload]  # a mapping by now
        require(f"a name of {name}", key, TEXT)
        require(f"{name}[{key!r:.40}]", value, TEXT)


def require_sandbox(record: str, config: Any) -> None:
    """Raise UsageError where a SandboxConfig's field is of another type than it says."""
    for name, kinds in SANDBOX.items():
        require(f"{record}.{name}", getattr(config, name), kinds)
    require_variables(f"{record}.variables", config.variables)
    require_each(f"{record}.mounts", config.mounts, (str, Mount))
    require_each(f"{record}.secrets", config.secrets, TEXT)
    for mount in config.mounts:
        if isinstance(mount, Mount):
            for name in ("source", "target"):
                require(f"Mount.{name}", getattr(mount, name), TEXT)
    if isinstance(config.limits, Limits):
        require_limits(config.limits)


def require_limits(limits: Limits) -> None:
    """Raise UsageError where a limit is no number of its type, or less than nothing."""
    for each in fields(Limits):
        value, name = getattr(limits, each.name), f"Limits.{each.name}"
        if value is None and each.default is None:
            continue
        is_whole = isinstance(each.default, int) or each.name.endswith(("_bytes", "connections"))
        is_optional = each.name not in {"temporary_bytes", "output_bytes"}
        if value is None and is_optional:
            continue
        require(name, value, (int,) if is_whole else (int, float))
        if not 0 <= value < float("inf"):
            raise UsageError(f"{name} is {value}", hint="say a number that is not below 0")


__all__ = [
    "OPTIONAL_TEXT",
    "PATH",
    "TEXT",
    "require",
    "require_each",
    "require_limits",
    "require_sandbox",
    "require_variables",
]
