"""Bounds each step of a work: an expression that backtracks for ever ends as a refusal."""

from __future__ import annotations

import signal

from .answers import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Generator


def in_time(
    work: Generator[float, None, dict[str, Any]], limit_s: float
) -> Generator[float, None, dict[str, Any]]:
    """Do `work`. Raises Refusal when a step of it takes longer than `limit_s`.

    Between steps no alarm is set, for other works have their turn then.
    """
    try:
        while True:
            with _Alarm(limit_s):
                try:
                    delay_s = next(work)
                except StopIteration as stop:
                    result: dict[str, Any] = stop.value
                    return result
            yield delay_s
    finally:
        work.close()


class _Alarm:
    """Rings once unless it is left before; Python looks for signals inside of expressions too."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        self._old = signal.signal(signal.SIGALRM, _too_slow)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._old)


def _too_slow(_number: int, _frame: object) -> None:
    raise Refusal("TIMEOUT", "this expression takes for ever on a file here; make it simpler")


__all__ = ["in_time"]
