"""Notices a plan that goes round in circles: the same calls with the same results."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

WARN_AT = 3  # rounds of one cycle
END_AT = 5
LONGEST_CYCLE = 4  # calls


class Verdict(StrEnum):
    """What the last calls look like."""

    FINE = "fine"
    WARN = "warn"
    END = "end"


@dataclass(kw_only=True)
class Repetition:
    """Remembers the last calls by what they asked and what came of it."""

    seen: list[tuple[Callable[[], str], object]] = field(default_factory=list)  # label, signature
    warned: bool = False

    def observe(self, label: Callable[[], str], signature: object) -> None:
        """Take in one call: a `label` for people and a `signature` of call and result."""
        self.seen.append((label, signature))
        del self.seen[: -LONGEST_CYCLE * END_AT]

    def verdict(self) -> tuple[Verdict, str]:
        """Return what to do and the reason; each stretch is warned about once."""
        rounds, cycle = self._rounds()
        if rounds >= END_AT:
            return Verdict.END, self._words(rounds, cycle)
        if rounds >= WARN_AT and not self.warned:
            self.warned = True
            return Verdict.WARN, self._words(rounds, cycle)
        if rounds < WARN_AT:
            self.warned = False
        return Verdict.FINE, ""

    def forget(self) -> None:
        """Begin anew, after somebody gave a new word."""
        self.seen.clear()
        self.warned = False

    def _rounds(self) -> tuple[int, int]:
        signatures = [signature for _, signature in self.seen]
        best = (1, 1)
        if signatures[-1:] and signatures[-1] not in signatures[:-1]:
            return best
        for cycle in range(1, LONGEST_CYCLE + 1):
            last = signatures[-cycle:]
            rounds = 1
            while (
                len(last) == cycle and signatures[-cycle * (rounds + 1) : -cycle * rounds] == last
            ):
                rounds += 1
            if rounds > best[0]:
                best = (rounds, cycle)
        return best

    def _words(self, rounds: int, cycle: int) -> str:
        calls = ", ".join(label() for label, _ in self.seen[-cycle:])
        return f"{calls}: {rounds} times with the same result"


__all__ = ["END_AT", "WARN_AT", "Repetition", "Verdict"]
