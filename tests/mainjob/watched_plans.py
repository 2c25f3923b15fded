"""Commands whose time and memory are counted, in a network where each attempt is seen."""

import time
from dataclasses import dataclass

from mainjob.driver import Answer, Desk
from memory import Growth
from network_watch import NetworkWatch
from timing import IS_SOAK, promised

__all__ = ["LIMIT_S", "Watched", "told", "watched"]

LIMIT_S = promised(60)  # that a plan is given
BESIDES_S = promised(10)  # that it may take to end, once its limit is over
#: That an engine may grow by: the longest file that it reads, as bytes, as text and as values.
MOST_GROWTH = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The answer of one command, and the time and memory it took."""

    answer: Answer
    took_s: float
    growth: int  # at most, in bytes
    attempts: list[str]  # to reach anything over a network

    def excess(self, *, within_s: float = LIMIT_S) -> str:
        """Say what was too much, or that something was reached for; empty: nothing."""
        found = [f"reached for {each}" for each in self.attempts]
        if self.took_s > within_s + BESIDES_S:
            found.append(f"took {self.took_s:.1f} s")
        if self.growth > MOST_GROWTH:
            found.append(f"took {self.growth >> 20} MiB more")
        return ", ".join(found)


def watched(desk: Desk, network: NetworkWatch, *words: str) -> Watched:
    """Run one command of `agents` in that network, to its end."""
    network.attempts()
    begun = time.monotonic()
    with network.entered():
        growth = Growth()
        answer = desk.agents(*words)
        most = growth.most
    took_s = time.monotonic() - begun
    return Watched(answer=answer, took_s=took_s, growth=most, attempts=network.attempts())


def told(what: str, commands: list[Watched]) -> None:
    """Print the figures of a soak."""
    if IS_SOAK:
        longest, most = max(c.took_s for c in commands), max(c.growth for c in commands)
        print(f"{what}: {len(commands)}, at most {longest:.1f} s, {most >> 20} MiB more")  # noqa: T201 - figures of a soak
