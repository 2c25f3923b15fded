"""What a loop that lives long does with one bad item: it tells of the item and passes over it.

A worker, a watcher, a gateway or the janitor meets plans, rows and frames that others wrote. One
that cannot be read, or that meets a defect of ours, must neither end the loop nor hide the others.
"""

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Self

from patchyard.domain.errors import PatchyardError

LOG = logging.getLogger("patchyard")
MOST_KNOWN = 1_000  # troubles that are remembered, so that each is told once

Told = Callable[[str], None]


class Enduring:
    """The rule for one loop. It never waits: the pause between two looks is the loop's own."""

    def __init__(
        self, told: Told | None = None, *, through: tuple[type[Exception], ...] = ()
    ) -> None:
        """Take who is told, else the log; what is `through` ends the loop all the same."""
        self._told = told
        self.through = through
        self._known: dict[str, str] = {}

    def passing(self, name: str) -> "Item":
        """Do the block for the item of this name; an error in it is told, and goes no further.

        A cancellation does go further, and so does what was named as `through`. A loop's own turn
        has no name: the error's words stand alone then.
        """
        return Item(self, name)

    def is_well(self, name: str) -> None:
        """Tell of the item again, once something is wrong with it."""
        self._known.pop(name, None)

    def tell(self, name: str, error: Exception) -> None:
        """Say what is wrong with an item: once, until that changes or the item is well again."""
        said = _described(error)
        if self._known.get(name) == said:
            return
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[name] = said
        text = _printable(f"{name}: {said}" if name else said)
        if self._told is None:
            LOG.warning("%s", text)
        else:
            self._told(text)
        LOG.debug("%s", text, exc_info=error)


class Item:
    """One item of a loop, as a context manager."""

    def __init__(self, rule: Enduring, name: str) -> None:
        self.error: Exception | None = None  # why it was passed over
        self._rule = rule
        self._name = name

    def __enter__(self) -> Self:
        """Begin with the item."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> bool:
        """Return whether the error goes no further."""
        if error is None:
            self._rule.is_well(self._name)
        if not isinstance(error, Exception) or isinstance(error, self._rule.through):
            return False
        self.error = error
        self._rule.tell(self._name, error)
        return True


def _described(error: Exception) -> str:
    """Return what went wrong; for a defect of ours its kind, and the line it came from."""
    if isinstance(error, PatchyardError):
        return error.message
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace is not None else None
    where = f" (in {code.co_name})" if code is not None else ""
    return f"{type(error).__name__}: {error}{where}"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


__all__ = ["LOG", "MOST_KNOWN", "Enduring", "Item", "Told"]
