"""What a tool's declaration says of where the tool runs (A+, #879)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Preference(StrEnum):
    """How much a tool insists."""

    NONE = "none"  # where the chain says, or where the tool's own setting does
    REQUIRED = "required"  # in a container, or not at all
    PREFERRED = "preferred"  # in a container where one starts, else where the chain says
    SPECIFIC = "specific"  # in the resource that it names, whatever the chain says


@dataclass(frozen=True, kw_only=True)
class ToolPreference:
    """The preference of one tool."""

    mode: Preference = Preference.NONE
    target_resource: str = ""  # of `specific`


@dataclass(frozen=True, kw_only=True)
class ToolSetting:
    """What is said of one tool."""

    execution_environment: str | None = None  # None: not set
    preference: ToolPreference = ToolPreference()


@dataclass(frozen=True, kw_only=True)
class PreferenceFell:
    """An event: a preferred place did not start the first time, and is given up for this plan."""

    place: str  # a kind, or a linked resource's name
    cause: str


def environments_of(said: Mapping[str, ToolSetting]) -> dict[str, str]:
    """Return where each tool runs that says so."""
    found = {name: each.execution_environment for name, each in said.items()}
    return {name: place for name, place in found.items() if place is not None}


def preferences_of(said: Mapping[str, ToolSetting]) -> dict[str, ToolPreference]:
    """Return the preference of each tool that has one."""
    found = {name: each.preference for name, each in said.items()}
    return {name: own for name, own in found.items() if own.mode != Preference.NONE}


__all__ = [
    "Preference",
    "PreferenceFell",
    "ToolPreference",
    "ToolSetting",
    "environments_of",
    "preferences_of",
]
