"""Values of settings, as data and as people read them."""

from dataclasses import fields, is_dataclass
from typing import Any

from patchyard.clients.yaml import flow
from patchyard.domain.codec import to_json
from patchyard.domain.durations import duration
from patchyard.domain.environment_limits import KEY, MEASURES

UNSAID = "-"


def plain(value: Any) -> Any:
    """Return a value as plain data; of a record also what was said as it would be by itself."""
    if not is_dataclass(value) or isinstance(value, type):
        return to_json(value)
    said = {each.name: getattr(value, each.name) for each in fields(value)}
    return {name: to_json(own) for name, own in said.items() if own is not None}


def shown(name: str, value: Any) -> str:
    """Return the value of the setting `name` on one line; `-` for none."""
    value = plain(value)
    is_time = name == "limits.timeout" or (name.startswith("budget.") and name.endswith("_time"))
    if is_time and value is not None:
        return duration(value)
    if value is None or value in ([], {}):
        return UNSAID
    if name == "gates":
        value = [f"{each['name']} ({each.get('command') or each['reads']})" for each in value]
    if name.startswith(f"{KEY}."):
        return MEASURES[name.removeprefix(f"{KEY}.")].show(value)
    if name == "mcp_servers":
        value = {key: {k: v for k, v in each.items() if k != "name"} for key, each in value.items()}
    if isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value):
        return ", ".join(str(item) for item in value)
    return flow(value) if isinstance(value, (dict, list)) else str(value)


__all__ = ["UNSAID", "plain", "shown"]
