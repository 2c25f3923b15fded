"""The end of a command that a test has started, and what it said until then."""

import subprocess
from typing import AnyStr

__all__ = ["LONGEST_S", "ended"]

LONGEST_S = 240.0  # a hang is a failure; a busy machine is none


def ended(
    process: "subprocess.Popen[AnyStr]", *, within_s: float = LONGEST_S
) -> tuple[AnyStr, AnyStr]:
    """Return what a command says until its end. Raises TimeoutExpired, once it is killed.

    Its pipes are closed in any case: one that is left open is a warning, told in another test.
    """
    with process:
        try:
            return process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
