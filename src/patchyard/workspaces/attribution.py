"""Which call made a change: by the paths that calls name, else by when they ran. Reads no file.

Decision record 0004 gives the rules and what they do not promise.
"""

import bisect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from patchyard.contracts.workspace import CallWindow
from patchyard.domain.changeset import Change

SLACK_S = 0.02  # where the files are dated by another clock: a host's beside a guest's


def attribute(
    changes: list[Change], windows: Sequence[CallWindow], times: Mapping[str, float]
) -> None:
    """Put into each of the changes the call that last made it, None where that is not clear.

    `windows` come in the order of the calls. `times` holds by path when an entry last changed, in
    seconds; of a deleted one, when the folder did that it was in.
    """
    calls = _Calls(windows)
    marks = set[tuple[str, str | None]]()
    for number, change in enumerate(changes):
        if change.mode is not None:
            made = calls.that_wrote(change, times.get(change.path))
            changes[number] = _of_call(change, made)
            marks |= {(_folder(path), made) for path in (change.path, change.old_path) if path}
    for number, change in enumerate(changes):
        if change.mode is None:
            made = calls.that_deleted(change.path, times.get(change.path), marks)
            changes[number] = _of_call(change, made)


def _of_call(change: Change, call_id: str | None) -> Change:
    return change if change.call_id == call_id else replace(change, call_id=call_id)


class _Calls:
    """The calls of a plan, with the questions that a change asks of them."""

    def __init__(self, windows: Sequence[CallWindow]) -> None:
        self._naming = {path: window for window in windows for path in window.paths}
        timed = (window for window in windows if window.ended > 0 and window.is_open)
        self._open = sorted(timed, key=lambda window: window.started)
        self._open_starts = [window.started for window in self._open]
        ends = (window.ended for window in self._open)
        self._latest_ends = list(itertools.accumulate(ends, max))

    def that_wrote(self, change: Change, at: float | None) -> str | None:
        """Return the call that left the entry as it is."""
        named = self._naming.get(change.path)
        fitting = () if at is None else self._fitting(at)
        if named is not None:
            later = [each for each in fitting if _follows(each, named, at)]
            return _sole(later) if later or named.deletes else named.call_id
        if fitting or change.old_path is None:
            return _sole(fitting)
        of_old = self._naming.get(change.old_path)
        return None if of_old is None else of_old.call_id

    def that_deleted(
        self, path: str, at: float | None, marks: set[tuple[str, str | None]]
    ) -> str | None:
        """Return the call that deleted `path`; `marks` are folders with the calls that wrote there.

        A folder keeps only its last time, so that of one that was written to says little.
        """
        named = self._naming.get(path)
        if named is not None and named.deletes:
            return named.call_id
        if at is None:
            return None
        floor = 0.0 if named is None else named.ended
        call_id = _sole([each for each in self._around(at) if each.started >= floor])
        if call_id is not None and not any((each, call_id) in marks for each in _above(path)):
            return call_id
        first = bisect.bisect_left(self._open_starts, floor)
        until = bisect.bisect_right(self._open_starts, at, lo=first)
        return self._open[first].call_id if until - first == 1 else None

    def _fitting(self, at: float) -> Sequence[CallWindow]:
        """Return the calls that may write anywhere and may have done so at that moment."""
        return list(self._around(at)) or list(self._around(at, SLACK_S))

    def _around(self, at: float, slack: float = 0.0) -> Iterator[CallWindow]:
        """Yield those whose windows hold `at`, or miss it by no more than `slack`, in seconds."""
        index = bisect.bisect_right(self._open_starts, at + slack)
        while index and self._latest_ends[index - 1] >= at - slack:
            index -= 1
            if self._open[index].ended >= at - slack:
                yield self._open[index]


def _follows(later: CallWindow, named: CallWindow, at: float | None) -> bool:
    """Whether what happened at `at` is surely of `later`, as it began after `named` was over."""
    if named.ended <= 0 or at is None:
        return False
    return named.ended < later.started <= at


def _sole(windows: Sequence[CallWindow]) -> str | None:
    """Return the only call there is: between several that fit none is claimed."""
    return windows[0].call_id if len(windows) == 1 else None


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _above(path: str) -> Iterator[str]:
    while path:
        path = _folder(path)
        yield path


__all__ = ["SLACK_S", "attribute"]
