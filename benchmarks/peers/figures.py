"""What was measured of each contender, put together over all rounds; knows how to be JSON."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.peers.trial import Killed, Trial

__all__ = ["AT", "LAST", "SPANS", "Figures"]

AT = (10, 50, 100, 1000)
SPANS = {100: 10, 1000: 100}  # what is spent a step is taken from one step to another
LAST = 10  # steps that a median at a step is taken over
MB = 1e6


@dataclass(kw_only=True)
class Figures:
    """Of one contender."""

    name: str
    walls: str
    keeps: str
    trials: list[Trial] = field(default_factory=list)
    killed: Killed | None = None
    again: bool = True  # whether it goes on after a kill, or only starts anew
    trouble: list[str] = field(default_factory=list)

    def at_ms(self, step: int) -> float | None:
        """Return the median over the rounds of a step at that place."""
        last = LAST if step < 1000 else 100
        found = [trial.median_ms(step, last=min(last, step - 1)) for trial in self.trials]
        return _median([value for value in found if value is not None])

    def mean_ms(self) -> float | None:
        """Return the mean step of the shorter runs, first step included."""
        return _median([statistics.mean(trial.steps_ms) for trial in self._short()])

    def cpu_ms(self, until: int) -> float | None:
        """Return the processor time of a step up to `until`, all processes together."""
        return self._spent(until, lambda spent: spent.cpu_s * 1000)

    def disk_kb(self, until: int) -> float | None:
        """Return the kilobytes of disk pages dirtied by a step up to `until`."""
        return self._spent(until, lambda spent: spent.disk / 1000)

    def calls_kb(self, until: int) -> float | None:
        """Return the kilobytes given to write() by a step up to `until`."""
        return self._spent(until, lambda spent: spent.calls / 1000)

    def _spent(self, until: int, read: Any) -> float | None:
        since = SPANS[until]
        found = []
        for trial in self.trials:
            if since in trial.spent and until in trial.spent:
                taken = read(trial.spent[until]) - read(trial.spent[since])
                found.append(taken / (until - since))
        return _median(found)

    def first_request_s(self) -> float | None:
        """Return the median time from the start of the process to its first request."""
        return _median([trial.first_request_s for trial in self.trials])

    def peak_mb(self) -> tuple[float, float] | None:
        """Return the highest memory of all processes together: RSS, PSS."""
        if not self.trials:
            return None
        peaks = [trial.peak for trial in self.trials]
        return max(peak.rss for peak in peaks) / MB, max(peak.pss for peak in peaks) / MB

    def _short(self) -> Sequence[Trial]:
        shortest = min((len(trial.steps_ms) for trial in self.trials), default=0)
        return [trial for trial in self.trials if len(trial.steps_ms) == shortest]

    def as_json(self) -> dict[str, Any]:
        """Return the derived figures; single steps are left out."""
        return {
            "name": self.name,
            "walls": self.walls,
            "keeps": self.keeps,
            "ms": {str(step): self.at_ms(step) for step in AT},
            "mean_ms": self.mean_ms(),
            "cpu_ms": {str(until): self.cpu_ms(until) for until in SPANS},
            "disk_kb": {str(until): self.disk_kb(until) for until in SPANS},
            "calls_kb": {str(until): self.calls_kb(until) for until in SPANS},
            "first_request_s": self.first_request_s(),
            "peak_mb": self.peak_mb(),
            "killed": asdict(self.killed) if self.killed else None,
            "trouble": self.trouble,
        }


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
