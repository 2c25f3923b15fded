"""Numbers as people write them: plain digits, a point, an exponent. Pure."""

import re
from typing import Any

NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def number_of(value: Any) -> float | None:
    """Return the number that `value` is or says, None where it is none.

    What is beyond all numbers that a machine counts with is infinite.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    text = str(value).strip()
    return float(text) if NUMBER.fullmatch(text) else None


def shown_number(number: float) -> str:
    """Return a number as people write it: never with an exponent, at most three decimals."""
    return f"{number:.3f}".rstrip("0").rstrip(".")


__all__ = ["NUMBER", "number_of", "shown_number"]
