"""What is wrong with a part of a document, by the path of keys and numbers that leads there."""

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from patchyard.domain.errors import UsageError

Place = tuple[str | int, ...]


class Fault(UsageError):
    """A part of a document does not fit."""

    code = "bad_file"

    def __init__(self, place: Place, problem: str, *, hint: str = "") -> None:
        self.place = place
        self.problem = problem
        where = spoken(place)
        super().__init__(f"{where}: {problem}" if where else problem, hint=hint)


def spoken(place: Place) -> str:
    """Return a place as people write it: `steps[2].replace.pattern`."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def unknown_key(place: Place, name: str, known: Collection[str]) -> Fault:
    """Return the fault for a key that is not one of `known`, naming the nearest."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return Fault(
        (*place, name), f"unknown key {name!r}{guess}", hint=f"known: {', '.join(sorted(known))}"
    )


def check_keys(value: Any, place: Place, known: Collection[str]) -> Mapping[str, Any]:
    """Return `value` when it is a mapping with none but `known` keys. Raises Fault."""
    if not isinstance(value, Mapping):
        raise Fault(place, f"must be a mapping, not {kind_of(value)}")
    for name in value:
        if name not in known:
            raise unknown_key(place, str(name), known)
    return value


def kind_of(value: Any) -> str:
    """Return what people call the type of a YAML value."""
    names = {dict: "a mapping", list: "a list", str: "text", bool: "true or false"}
    if value is None:
        return "nothing"
    return names.get(type(value), "a number" if isinstance(value, (int, float)) else "that")


__all__ = ["Fault", "Place", "check_keys", "kind_of", "spoken", "unknown_key"]
