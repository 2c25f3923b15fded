"""Settings in force as lines for people: whole, in their units, with what counts by default."""

from collections.abc import Iterator, Mapping, Sequence

from patchyard.cli.outcome import one_line
from patchyard.cli.usual_values import USUAL
from patchyard.cli.values import NONE, shown
from patchyard.domain.effective import DEFAULT, Setting

Parts = Mapping[str, Mapping[str, Setting]]  # of each record, by name

FOUND = ("setup", "validate")  # by the repository's files, where neither is said
CLEARED = frozenset({*FOUND, "checkpoints", "safety.categories"})
"""Of these an empty list has a meaning of its own; of others it is as if nothing were said."""


def setting_rows(
    values: Mapping[str, Setting], parts: Parts, *, has_origin: bool
) -> Sequence[Sequence[str]]:
    """Return a row for each setting: its name, its value and, where wished, its origin.

    Of a record that is said somewhere each part has a row. Where rows have no origin, those of
    defaults are marked.
    """
    is_found = all(values[name].value is None for name in FOUND)
    usual = USUAL if is_found else {**USUAL, **dict.fromkeys(FOUND, NONE)}
    return [
        [name, _said(name, setting, usual), setting.origin]
        if has_origin
        else [name, _said(name, setting, usual) + " (default)" * (setting.origin == DEFAULT)]
        for name, setting in _lines(values, parts).items()
    ]


def _lines(values: Mapping[str, Setting], parts: Parts) -> Mapping[str, Setting]:
    found: dict[str, Setting] = {}
    for name, setting in values.items():
        record = name.partition(".")[0]
        if record in parts and setting.origin != DEFAULT:
            found |= named_parts(record, parts)
        else:
            found[name] = setting
    return found


def named_parts(record: str, parts: Parts) -> Iterator[tuple[str, Setting]]:
    """Return each part of a record, by the name of both."""
    return ((f"{record}.{name}", part) for name, part in parts[record].items())


def _said(name: str, setting: Setting, usual: Mapping[str, str]) -> str:
    text = one_line(shown(name, setting.value))  # a repository's command would begin a row
    is_unsaid = setting.value is None or setting.value == ""
    if is_unsaid or (text == NONE and name not in CLEARED):
        return usual.get(name, text)
    return text


__all__ = ["named_parts", "setting_rows"]
