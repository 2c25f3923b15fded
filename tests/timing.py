"""What tests may ask of a clock: machines are shared and noisy, so no test asks for a speed.

How fast something is, is a benchmark's to say. A test can ask that work grows with its input and no
faster, and that nothing waits where an end was promised: to the second in a soak, which runs on a
quiet machine, and elsewhere with the patience that still tells an end from a hang.
"""

import time
from collections.abc import Callable
from functools import partial

from services import REAL_ENVIRONMENT

__all__ = ["IS_SOAK", "LARGER", "promised", "quickest", "require_linear"]

IS_SOAK = bool(REAL_ENVIRONMENT.get("PATCHYARD_SOAK"))
PATIENCE = 10
LARGER = 8
#: Of `LARGER` times the input: a square takes 64 times as long, and noise should not look like one.
MOST_TIMES = 24
#: Less than this is the clock's own noise, whatever the input.
LEAST_S = 0.01
TRIES = 3


def promised(seconds: float) -> float:
    """How long a test waits for what is promised within so many seconds."""
    return seconds if IS_SOAK else seconds * PATIENCE


def require_linear(work: Callable[[int], object], size: int) -> None:
    """Have work done for a size and for an eighth of it; fails where it grows like a square.

    It is the processor's time that counts.
    """
    small, large = (quickest(partial(work, each)) for each in (size // LARGER, size))
    assert large < MOST_TIMES * max(small, LEAST_S), (small, large)


def quickest(work: Callable[[], object]) -> float:
    """The processor's seconds that work takes, of a few tries the least."""
    taken: list[float] = []
    while len(taken) < TRIES and (not taken or min(taken) > LEAST_S):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return min(taken)
