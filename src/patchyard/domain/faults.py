"""What is wrong with a part of a document, by the path of keys and numbers that leads there."""

from collections.abc import Collection, Mapping
from typing import Any

from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.nearness import near_names

Place = tuple[str | int, ...]


class Fault(UsageError):
    """A part of a document does not fit."""

    code = "bad_file"

    def __init__(
        self,
        place: Place,
        problem: str,
        *,
        hint: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self.place = place
        self.problem = problem
        where = spoken(place)
        message = f"{where}: {problem}" if where else problem
        super().__init__(message, hint=hint, details=details)

    @classmethod
    def at(cls, place: Place, error: UsageError) -> "Fault":
        """Return the fault that `error` is where the part stands at `place`."""
        return cls(place, error.message, hint=error.hint, details=error.details)


def unplaced(fault: Fault, said: str = "") -> UsageError:
    """Return the error of a fault outside of documents; `said` stands for the problem's words."""
    kind = UnknownName if "known" in fault.details else UsageError
    return kind(said or fault.problem, hint=fault.hint, details=fault.details)


def spoken(place: Place) -> str:
    """Return a place as people write it: `steps[2].replace.pattern`."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def unknown_key(place: Place, name: str, known: Collection[str]) -> Fault:
    """Return the fault for a key that is not one of `known`, naming the nearest."""
    near = near_names(name, known)
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


__all__ = ["Fault", "Place", "check_keys", "kind_of", "spoken", "unknown_key", "unplaced"]
