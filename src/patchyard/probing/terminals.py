"""A bait terminal: what is written to it or typed into it can be seen."""

import contextlib
import os
import tty


class BaitTerminal:
    """A pseudo-terminal of ours that everybody may open."""

    def __init__(self) -> None:
        self._screen, self._keys = os.openpty()
        tty.setraw(self._keys)
        self.path = os.ttyname(self._keys)
        os.fchmod(self._keys, 0o666)
        for descriptor in (self._screen, self._keys):
            os.set_blocking(descriptor, False)

    def shown(self) -> str:
        """Return what was written to it since."""
        return _read(self._screen)

    def typed(self) -> str:
        """Return what was typed into it since."""
        return _read(self._keys)

    def close(self) -> None:
        """Take it away."""
        os.close(self._keys)
        os.close(self._screen)


def _read(descriptor: int) -> str:
    with contextlib.suppress(OSError):
        return os.read(descriptor, 65536).decode("utf-8", "replace")
    return ""


__all__ = ["BaitTerminal"]
