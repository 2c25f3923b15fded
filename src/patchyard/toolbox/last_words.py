"""What a program that failed said, as an error repeats it."""

from __future__ import annotations

TRACEBACK = "Traceback (most recent call last):"  # of Python, before the frames


def last_words(said: str) -> str:
    """Return what was said; of Python's traceback the last line alone, which is the exception."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if TRACEBACK in lines else said.strip()


__all__ = ["TRACEBACK", "last_words"]
