"""Gates as configurations write them: a mapping of names, read with the place of every mistake."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from patchyard.domain.durations import seconds_of
from patchyard.domain.errors import UnknownName, quoted
from patchyard.domain.faults import Fault, Place, check_keys, kind_of
from patchyard.domain.gates import (
    ENDED_WELL,
    FINDING,
    PLACEHOLDER,
    TESTING,
    Gate,
    Reach,
    Reads,
    Severity,
)
from patchyard.domain.shipped_gates import SHIPPED
from patchyard.domain.texts import text_of, texts_of

KEYS = (
    "command",
    "exit_codes",
    "from_base",
    "mapping",
    "parser",
    "repeats",
    "report",
    "required",
    "scope",
    "severity",
    "tests",
    "threshold",
    "timeout",
    "use",
)
NAME = re.compile(r"\w[\w.-]{0,62}")
FACTS = ("file", "items", "line", "message", "rule", "severity")  # of `mapping`
MOST_REPEATS = 25
MOST_PERCENT = 100
_IN_BRACES = re.compile(r"(?<!\$)\{\s*\w+\s*\}")
SUCH_AS = "such as `tests: pytest`, or `lint: {use: ruff, scope: changed}`"

Gates = Mapping[str, Gate | None]  # by name; None: switched off


def gates_of(value: Any, place: Place) -> Gates:
    """Return gates from a mapping of names; one that is `false` is switched off. Raises Fault.

    Each is the name of one that comes with us, or a mapping of KEYS.
    """
    if not isinstance(value, Mapping):
        raise Fault(place, f"must be a mapping of names, not {kind_of(value)}", hint=SUCH_AS)
    for name in value:
        if not NAME.fullmatch(str(name)):
            hint = "letters, digits, `_`, `-` and `.`, 63 at most"
            raise Fault((*place, str(name)), f"{quoted(str(name))} cannot name a gate", hint=hint)
    return {
        str(name): _gate(str(name), entry, (*place, str(name))) for name, entry in value.items()
    }


def _gate(name: str, entry: Any, here: Place) -> Gate | None:
    if entry is False:
        return None
    if entry is True:
        raise Fault(here, "must name a gate or be a mapping, not true", hint=SUCH_AS)
    if isinstance(entry, str):
        return _whole(replace(_shipped(entry, here), name=name), here)
    body = check_keys(entry, here, KEYS)
    made = Gate(name=name)
    if "use" in body:
        made = replace(_shipped(text_of(body, "use", here), (*here, "use")), name=name)
    if "command" in body:
        made = replace(made, command=_command(text_of(body, "command", here), here))
    made = _judged(_read(made, body, here), body, here)
    return _whole(made, here)


def _shipped(name: str, place: Place) -> Gate:
    if name not in SHIPPED:
        raise Fault.at(place, UnknownName.among("gate", name, SHIPPED))
    return SHIPPED[name]


def _command(text: str, here: Place) -> str:
    for said in _IN_BRACES.findall(text):
        if said != PLACEHOLDER and get_close_matches(said.lower(), [PLACEHOLDER]):
            hint = f"{PLACEHOLDER} is where the command writes its report"
            raise Fault((*here, "command"), f"{said} stands for nothing", hint=hint)
    return text


def _read(made: Gate, body: Mapping[str, Any], here: Place) -> Gate:
    """Return the gate with what is said of its command and its report."""
    if "parser" in body:
        made = replace(made, reads=Reads(_word(body, "parser", here, tuple(Reads))))
        made = replace(made, is_tests=made.reads in TESTING)
    if "report" in body:
        made = replace(made, report=_path(text_of(body, "report", here), (*here, "report")))
    if "mapping" in body:
        known = check_keys(body["mapping"], (*here, "mapping"), FACTS)
        texts = {key: text_of(known, key, (*here, "mapping")) for key in known}
        made = replace(made, mapping=texts)
    if "timeout" in body:
        made = replace(made, timeout_s=_seconds(body["timeout"], (*here, "timeout")))
    if "repeats" in body:
        made = replace(made, repeats=_count(body["repeats"], (*here, "repeats")))
    if "exit_codes" in body:
        codes = _codes(body["exit_codes"], (*here, "exit_codes"))
        made = replace(made, exit_codes=codes)
    return replace(made, from_base=texts_of(body, "from_base", here) or made.from_base)


def _judged(made: Gate, body: Mapping[str, Any], here: Place) -> Gate:
    """Return the gate with what is said of its verdict."""
    if "scope" in body:
        made = replace(made, scope=Reach(_word(body, "scope", here, tuple(Reach))))
    if "severity" in body:
        made = replace(made, severity=Severity(_word(body, "severity", here, tuple(Severity))))
    if "threshold" in body:
        made = replace(made, threshold=_number(body["threshold"], (*here, "threshold")))
    return replace(
        made,
        is_required=_switch(body, "required", here, is_on=made.is_required),
        is_tests=_switch(body, "tests", here, is_on=made.is_tests),
    )


def _whole(made: Gate, here: Place) -> Gate:
    """Return the gate. Raises Fault where one part of it does not fit another."""
    if made.is_scan and made.command:
        raise Fault((*here, "command"), f"{made.reads} reads the change itself: it has no command")
    if not made.is_scan and not made.command.strip():
        hint = "or `use` one that comes with Patchyard"
        if made.reads == Reads.TIME:
            hint = "this gate measures a command of yours"
        raise Fault(here, "`command` is missing", hint=hint)
    if made.report and PLACEHOLDER in made.command:
        raise Fault((*here, "report"), f"the command says {PLACEHOLDER} already")
    if made.reads == Reads.JSON and "rule" not in made.mapping and "message" not in made.mapping:
        raise Fault(here, "`mapping` must say where `rule` or `message` stands")
    if made.mapping and made.reads != Reads.JSON:
        raise Fault((*here, "mapping"), "it counts with `parser: json` alone")
    if made.exit_codes != ENDED_WELL and made.reads not in FINDING:
        raise Fault((*here, "exit_codes"), "they count where findings are read: name a `parser`")
    if made.threshold is not None and made.reads == Reads.EXIT:
        raise Fault((*here, "threshold"), "an exit code has none: name a `parser`")
    if made.reads == Reads.COVERAGE and made.allowed > MOST_PERCENT:
        raise Fault((*here, "threshold"), f"must be a percentage, {MOST_PERCENT} at most")
    return made


def _seconds(value: Any, place: Place) -> float:
    """Return the seconds of a duration that names its unit."""
    if not isinstance(value, str) or value.strip()[-1:].isdigit():
        raise Fault(place, f"{quoted(str(value))} has no unit", hint="write it like 90s or 10m")
    return seconds_of(value, place)


def _word(body: Mapping[str, Any], key: str, here: Place, known: tuple[str, ...]) -> str:
    said = text_of(body, key, here)
    if said not in known:
        raise Fault.at((*here, key), UnknownName.among(key, said, known))
    return said


def _path(text: str, place: Place) -> str:
    if text.startswith("/") or not text or ".." in text.split("/"):
        raise Fault(place, "must be a path inside the tree")
    return text


def _count(value: Any, place: Place) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_REPEATS:
        raise Fault(place, f"must be a whole number from 1 to {MOST_REPEATS}")
    return value


def _codes(value: Any, place: Place) -> tuple[int, ...]:
    codes = value if isinstance(value, list) else [value]
    for code in codes:
        if isinstance(code, bool) or not isinstance(code, int) or not 0 < code < 126:
            raise Fault(place, "must be whole numbers from 1 to 125", hint="0 always is one")
    return tuple(sorted({0, *codes}))


def _number(value: Any, place: Place) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise Fault(place, "must be a number, 0 or more")
    return float(value)


def _switch(body: Mapping[str, Any], key: str, here: Place, *, is_on: bool) -> bool:
    value = body.get(key, is_on)
    if not isinstance(value, bool):
        raise Fault((*here, key), f"must be true or false, not {kind_of(value)}")
    return value


def merged_gates(said: Sequence[Gates]) -> tuple[Gate, ...]:
    """Return the gates in force; the first of `said` that names one decides on it."""
    found: dict[str, Gate | None] = {}
    for gates in reversed(said):
        found.update(gates)
    return tuple(gate for gate in found.values() if gate is not None)


def with_own(gates: Sequence[Gate], own: Gates) -> tuple[Gate, ...]:
    """Return the gates of a plan for another role, which has some of its own."""
    return merged_gates([own, {gate.name: gate for gate in gates}])


__all__ = ["FACTS", "KEYS", "MOST_REPEATS", "Gates", "gates_of", "merged_gates", "with_own"]
