"""Values of settings, as data and as people read them."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from patchyard.clients.yaml import flow
from patchyard.domain.codec import to_json
from patchyard.domain.durations import duration
from patchyard.domain.environment_limits import KEY, MEASURES
from patchyard.domain.numerals import shown_number
from patchyard.domain.retention import DAY_S
from patchyard.domain.sizes import shown_bytes

NONE = "none"


def plain(value: Any) -> Any:
    """Return a value as plain data; of a record also what was said as it would be by itself."""
    if not is_dataclass(value) or isinstance(value, type):
        return to_json(value)
    said = {each.name: getattr(value, each.name) for each in fields(value)}
    return {name: to_json(own) for name, own in said.items() if own is not None}


def shown(name: str, value: Any) -> str:
    """Return the value of the setting `name`, or of a part, on one line; `none` for nothing."""
    value = plain(value)
    if value is None or value in ([], {}, ""):
        return NONE
    if show := _measure_of(name):
        return show(value)
    if isinstance(value, bool):
        return str(value).lower()
    if name in _WRITTEN:
        value = _WRITTEN[name](value)
    if isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value):
        return ", ".join(str(item) for item in value)
    return flow(value) if isinstance(value, (dict, list)) else str(value)


def _measure_of(name: str) -> Callable[[Any], str] | None:
    """Return what says a number in its unit; None for what has none."""
    record, _, part = name.rpartition(".")
    if record == KEY:
        return MEASURES[part].show
    if record == "budget" and part.endswith("_time"):
        return duration
    return _MEASURES.get(name)


def _days(seconds: float) -> str:
    """Return a time that is kept: in days, where they are whole."""
    return duration(seconds) if seconds % DAY_S else f"{shown_number(seconds / DAY_S)}d"


def _gates(value: Any) -> Any:
    return [f"{each['name']} ({each.get('command') or each['reads']})" for each in value]


def _servers(value: Any) -> Any:
    return {name: {k: v for k, v in each.items() if k != "name"} for name, each in value.items()}


def _tools(value: Any) -> Any:
    """Return what is said of tools as it is written: the preference without its record."""
    return {
        name: {**each, **_preference(**each.get("preference", {}))} for name, each in value.items()
    }


def _preference(mode: str = "", target_resource: str = "") -> dict[str, str]:
    said = {"preference": mode, "target_resource": target_resource}
    return {key: word for key, word in said.items() if word}


_WRITTEN: Mapping[str, Callable[[Any], Any]] = {
    "gates": _gates,
    "mcp_servers": _servers,
    "tools": _tools,
}
_MEASURES: Mapping[str, Callable[[Any], str]] = {
    "keep.free": shown_bytes,
    "keep.journals": _days,
    "keep.machines": _days,
    "keep.workspaces": _days,
    "limits.timeout": duration,
    "network.max_call_bytes": shown_bytes,
    "network.max_plan_bytes": shown_bytes,
    "pool.age": duration,
}

__all__ = ["NONE", "plain", "shown"]
