"""How a program ended that did not end by itself: the kernel killed it, or it broke.

That is no wrong use, and no reason to run with fewer walls.
"""

import re
import signal

BY_SHELL = 128  # is added to a signal's number by who passes an ending on
PASSED_ON = frozenset(BY_SHELL + each for each in (signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV))
SAID = re.compile(r"died of signal (?P<number>\d{1,2})\b|(?P<memory>[Oo]ut of memory)")
FREE_MEMORY = (
    "free some memory, then run it again; `dmesg` says whom the kernel has ended for want of it"
)


def death(code: int, said: str = "") -> str:
    """Return the words for an end by a signal or for want of memory, "" for one of another kind.

    `code` is the exit code, negative for a signal; `said` is what the program wrote on its errors.
    """
    found = SAID.search(said)
    if found is not None and found["memory"]:
        return "ran out of memory"
    number = -code if code < 0 else code - BY_SHELL if code in PASSED_ON else 0
    if not number and found is not None:
        number = int(found["number"])
    if not number:
        return ""
    try:
        return f"was killed by {signal.Signals(number).name}"
    except ValueError:
        return f"was killed by signal {number}"


__all__ = ["FREE_MEMORY", "death"]
