"""Ctrl-C while a command begins: raised as ever, and kept, since Python can drop what is raised."""

import signal


class EarlyInterrupt:
    """Handles SIGINT until the work of a command has begun, and has a handler of its own.

    Python drops an exception within a finalizer or the callback of a weak reference, and many of
    these run among imports: what is dropped there must still stop the work.
    """

    def __init__(self) -> None:
        self.has_come = False

    def __call__(self, *_: object) -> None:
        """Raise KeyboardInterrupt, and keep that it was."""
        self.has_come = True
        raise KeyboardInterrupt


def hear_interrupts() -> None:
    """Keep each interrupt from now on, unless something else than Python's own handler is set."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, EarlyInterrupt())


__all__ = ["EarlyInterrupt", "hear_interrupts"]
