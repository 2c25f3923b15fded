"""Which of several places' settings count, and where each value came from. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from patchyard.domain.ceilings import shown_limit
from patchyard.domain.environment_limits import KEY, EnvironmentLimits, given, in_force, merged
from patchyard.domain.errors import UsageError
from patchyard.domain.faults import Fault, unplaced
from patchyard.domain.gate_settings import merged_gates
from patchyard.domain.limit_settings import LimitSettings
from patchyard.domain.network_settings import NetworkSettings
from patchyard.domain.settings import KEYS, Settings

DEFAULT = "default"

DEFAULT_LIMITS = LimitSettings(budget_usd=5.0, max_steps=200, timeout=3600.0, rounds=3)

# Every place adds to these; no place takes another's away.
SUMMED = frozenset({"approvals", "invariants", "protected_paths"})


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The settings of one place."""

    origin: str  # option, a variable's name, project NAME, a file
    settings: Settings
    written: Mapping[str, frozenset[str]] = field(default_factory=dict)  # parts, by setting
    # The error for a fault that shows only when the settings are used, with the place's own words.
    refused: Callable[[Fault], UsageError] = field(default=unplaced, compare=False, repr=False)

    @property
    def is_typed(self) -> bool:
        """Whether it is said for this plan: by an option or a variable."""
        return self.origin == "option" or self.origin.startswith("PATCHYARD_")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One value in force."""

    value: Any
    origin: str


def effective(layers: Sequence[Layer]) -> Mapping[str, Setting]:
    """Return each setting by name, some by parts: `limits.NAME`, `network.NAME`, `budget.NAME`.

    The first layer that says it wins. Without any shared budget there is `budget` alone.
    """
    found: dict[str, Setting] = {}
    for key in KEYS:
        if key == "limits":
            found.update(_limits(layers))
            continue
        if key == "network":
            found.update(_network(layers))
            continue
        if key == "budget":
            found.update(_budget(layers))
            continue
        if key == "gates":
            found[key] = _gates(layers)
            continue
        if key == KEY:
            found.update(_of_environments(layers))
            continue
        said = [
            Setting(value=value, origin=layer.origin)
            for layer in layers
            if (value := getattr(layer.settings, key)) is not None
        ]
        if key in SUMMED:
            values = tuple(item for setting in said for item in setting.value)
            origins = ", ".join(setting.origin for setting in said) or DEFAULT
            found[key] = Setting(value=tuple(dict.fromkeys(values)), origin=origins)
        else:
            found[key] = said[0] if said else Setting(value=None, origin=DEFAULT)
    return found


def _limits(layers: Sequence[Layer]) -> Mapping[str, Setting]:
    found = {}
    for each in fields(LimitSettings):
        chosen = Setting(value=getattr(DEFAULT_LIMITS, each.name), origin=DEFAULT)
        for layer in layers:
            limits = layer.settings.limits
            value = None if limits is None else getattr(limits, each.name)
            if value is not None:
                chosen = Setting(value=value, origin=layer.origin)
                break
        found[f"limits.{each.name}"] = chosen
    return found


def _network(layers: Sequence[Layer]) -> Mapping[str, Setting]:
    found = {}
    for each in fields(NetworkSettings):
        said = (
            Setting(value=value, origin=layer.origin)
            for layer in layers
            if layer.settings.network is not None
            and (value := getattr(layer.settings.network, each.name)) is not None
        )
        found[f"network.{each.name}"] = next(said, Setting(value=None, origin=DEFAULT))
    return found


def _budget(layers: Sequence[Layer]) -> Mapping[str, Setting]:
    """Return what is said of shared budgets; of the many keys most never are."""
    found: dict[str, Setting] = {}
    for layer in layers:
        for key, value in (layer.settings.budget or {}).items():
            setting = Setting(value=shown_limit(key, value), origin=layer.origin)
            found.setdefault(f"budget.{key}", setting)
    return dict(sorted(found.items())) or {"budget": Setting(value=None, origin=DEFAULT)}


def _gates(layers: Sequence[Layer]) -> Setting:
    """Return the gates of all layers; the first that names one decides on it."""
    said = [(layer.origin, layer.settings.gates) for layer in layers]
    told = [(origin, gates) for origin, gates in said if gates is not None]
    if not told:
        return Setting(value=None, origin=DEFAULT)
    value = merged_gates([gates for _, gates in told])
    return Setting(value=value, origin=", ".join(origin for origin, _ in told))


def _of_environments(layers: Sequence[Layer]) -> Mapping[str, Setting]:
    """Return what is said of the environments' limits; most have their default."""
    found: dict[str, Setting] = {}
    for layer in layers:
        for name, value in given(layer.settings.environment_limits or EnvironmentLimits()).items():
            found.setdefault(f"{KEY}.{name}", Setting(value=value, origin=layer.origin))
    return dict(sorted(found.items())) or {KEY: Setting(value=None, origin=DEFAULT)}


def environment_limits_in(layers: Sequence[Layer]) -> EnvironmentLimits:
    """Return the environments' limits that `layers` say, the first of them first."""
    said = (layer.settings.environment_limits for layer in layers)
    return merged(*(each for each in said if each is not None))


def environment_limits_in_force(layers: Sequence[Layer]) -> EnvironmentLimits:
    """Return the environments' limits that `layers` and the defaults come to."""
    return in_force(environment_limits_in(layers))


def limits_in_force(layers: Sequence[Layer]) -> LimitSettings:
    """Return the limits that `layers` and the defaults come to."""
    values = {name.partition(".")[2]: setting.value for name, setting in _limits(layers).items()}
    return LimitSettings(**values)


__all__ = [
    "DEFAULT",
    "DEFAULT_LIMITS",
    "SUMMED",
    "Layer",
    "Setting",
    "effective",
    "environment_limits_in",
    "environment_limits_in_force",
    "limits_in_force",
]
