"""Actions from files: the user's and those that ship with this package."""

import importlib.resources
from collections.abc import Collection
from pathlib import Path

from patchyard.clients.yaml import Document, parse_yaml, read_yaml
from patchyard.domain.action import Action, parse_action
from patchyard.domain.errors import UnknownName
from patchyard.domain.faults import Fault, Place
from patchyard.domain.holdings import Holdings

SHIPPED = "shipped"


def read_action(path: Path, *, roles: Collection[str]) -> Action:
    """Read an action file; `roles` are those there are. Raises UsageError with line and column."""
    document = read_yaml(path, is_text=_is_default)
    found = _action(document, str(path))
    if found.role and found.role not in roles:
        unknown = UnknownName.among("role", found.role, roles)
        raise document.refused(Fault.at(("role",), unknown)) from unknown
    return found


def _is_default(place: Place) -> bool:
    """Whether an argument's default stands there: a text, with quotes or without."""
    return len(place) == 3 and place[0] == "arguments" and place[2] == "default"


def _action(document: Document, source: str) -> Action:
    try:
        return parse_action(document.value, source=source)
    except Fault as fault:
        raise document.refused(fault) from fault


def shipped_actions() -> dict[str, Action]:
    """Return the actions of this package, by name."""
    folder = importlib.resources.files("patchyard") / "recipes"
    found = {}
    for entry in folder.iterdir():
        if entry.name.endswith(".yaml"):
            document = parse_yaml(
                entry.read_bytes(), name=f"{SHIPPED}:{entry.name}", is_text=_is_default
            )
            action = _action(document, SHIPPED)
            found[action.name] = action
    return found


def find_action(name: str, holdings: Holdings) -> Action:
    """Return the user's action of that name, else the shipped one. Raises UnknownName."""
    if name in holdings.actions:
        return holdings.actions[name]
    shipped = shipped_actions()
    if name in shipped:
        return shipped[name]
    raise UnknownName.among("action", name, {*holdings.actions, *shipped})


__all__ = ["SHIPPED", "find_action", "read_action", "shipped_actions"]
