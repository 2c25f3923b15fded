"""Which of the known names a misspelt one may mean: a far guess helps less than none. Pure."""

import difflib
from collections.abc import Iterable
from itertools import takewhile

ALIKE = 0.6  # difflib's own measure, of two names
SHORT = 4  # letters: in such a name each one tells much
SHORT_ALIKE = 0.7


def near_names(name: str, known: Iterable[str], *, most: int = 1) -> list[str]:
    """Return those of `known` that `name` may be misspelt for, the nearest first.

    Where one of the two is short, it has to be one slip away, letters of the other in their order
    (`args` of `arguments`), or nearer than other names are.
    """
    names = list(known)
    alike = difflib.get_close_matches(name, names, n=len(names) or 1, cutoff=ALIKE)
    return [each for each in alike if _is_near(each, name)][:most]


def _is_near(known: str, name: str) -> bool:
    short, long = sorted((known, name), key=len)
    if len(short) > SHORT or _is_one_slip(known, name) or _is_shortened(short, long):
        return True
    return difflib.SequenceMatcher(None, known, name).ratio() >= SHORT_ALIKE


def _is_shortened(short: str, long: str) -> bool:
    """Whether `short` begins as `long` does, and goes on with letters of it in their order."""
    letters = iter(long)
    return short[:1] == long[:1] and all(letter in letters for letter in short)


def _is_one_slip(one: str, other: str) -> bool:
    """Whether one letter is wrong, missing or too much, or two neighbours changed places."""
    begun = _shared(one, other)
    left, right = one[begun:][::-1], other[begun:][::-1]
    ended = _shared(left, right)
    left, right = left[ended:], right[ended:]
    return max(len(left), len(right)) <= 1 or (len(left) == 2 and left == right[::-1])


def _shared(one: str, other: str) -> int:
    """Return with how many same letters two texts begin."""
    return len([*takewhile(bool, (a == b for a, b in zip(one, other, strict=False)))])


__all__ = ["near_names"]
