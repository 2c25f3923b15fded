"""Records that settings say in part: each part in force, and where it came from. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from patchyard.domain.effective import DEFAULT, Layer, Setting, environment_limits_in_force
from patchyard.domain.environment_limits import KEY
from patchyard.domain.keeping import Keep, rules_of
from patchyard.domain.languages import BASE, IMAGES
from patchyard.domain.pooling import Pooling
from patchyard.domain.queue import Limits
from patchyard.domain.safety import SafetyProfile

_KEPT = rules_of(())
_BY_PART: Mapping[str, Callable[[Sequence[Layer]], Mapping[str, Any]]] = {
    KEY: lambda layers: vars(environment_limits_in_force(layers)),
    "keep": lambda _: {
        name: _KEPT.free if name == "free" else getattr(_KEPT.retention, name)
        for name in vars(Keep())
    },
}
"""Of these each part comes from the first place that says it; with what all parts come to."""
_WHOLE: Mapping[str, Mapping[str, Any]] = {
    "images": {language or BASE: image for language, image in IMAGES.items()},
    "pool": vars(Pooling()),
    "safety": vars(SafetyProfile()),
    "slots": vars(Limits()),
}
"""Of these the first place that says one decides on all parts; with what it leaves as it is."""
RECORDS = frozenset({*_BY_PART, *_WHOLE})


def effective_parts(layers: Sequence[Layer]) -> Mapping[str, Mapping[str, Setting]]:
    """Return each part of the `RECORDS` by its name, those that count by default too."""
    merged = {key: _by_part(key, layers, usual(layers)) for key, usual in _BY_PART.items()}
    return {**merged, **{key: _whole(key, layers, usual) for key, usual in _WHOLE.items()}}


def _by_part(key: str, layers: Sequence[Layer], usual: Mapping[str, Any]) -> Mapping[str, Setting]:
    found = {name: Setting(value=value, origin=DEFAULT) for name, value in usual.items()}
    for layer in reversed(layers):
        said = getattr(layer.settings, key)
        for name, value in vars(said).items() if said is not None else ():
            if value is not None:
                found[name] = Setting(value=value, origin=layer.origin)
    return found


def _whole(key: str, layers: Sequence[Layer], usual: Mapping[str, Any]) -> Mapping[str, Setting]:
    for layer in layers:
        said = getattr(layer.settings, key)
        if said is not None:
            values = {**usual, **(said if isinstance(said, Mapping) else vars(said))}
            written = layer.written.get(key, values)
            return {
                name: Setting(value=value, origin=layer.origin if name in written else DEFAULT)
                for name, value in values.items()
            }
    return {name: Setting(value=value, origin=DEFAULT) for name, value in usual.items()}


__all__ = ["RECORDS", "effective_parts"]
