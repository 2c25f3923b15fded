"""A program that is waited for in a thread, and ended with its group where an interrupt comes.

Git waits without end for what a stranger put into its way, and nothing else can stop a thread.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

LOOK_S = 0.2  # between two looks whether an interrupt has come
ENDING_S = 2.0  # for a program that was told to end, and takes its locks away


@dataclass(kw_only=True)
class Interrupts:
    """How many interrupts have come in this process, and the groups of programs that it waits for.

    Its methods take no lock, so that a handler of signals may call them.
    """

    count: int = 0
    groups: set[int] = field(default_factory=set)

    def come(self) -> None:
        """Let what runs now end, within the time that it was begun with."""
        self.count += 1

    def kill(self) -> None:
        """Kill what is waited for; this process is about to end."""
        for group in tuple(self.groups):
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGKILL)


INTERRUPTS = Interrupts()


def completed(
    words: Sequence[str],
    *,
    stdin: bytes | int,
    timeout_s: float,
    patience_s: float,
    stdout: int = subprocess.PIPE,
    **how: Any,
) -> "subprocess.CompletedProcess[bytes]":
    """Run a program in a group of its own and return what it said; blocking.

    `stdin` is what it reads, or an open file of that; `stdout` an open file for what it says, in
    place of returning that. `patience_s` is how long it may still run
    once an interrupt has come; `how` is for Popen.
    Raises OSError, TimeoutExpired after `timeout_s`, CancelledError after an interrupt.
    """
    before = INTERRUPTS.count
    with (
        _readable(stdin) as source,
        subprocess.Popen(
            words,
            stdin=source,
            stdout=stdout,
            stderr=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for us
            **how,
        ) as process,
    ):
        INTERRUPTS.groups.add(process.pid)
        try:
            out, err = _said(process, before, (timeout_s, patience_s))
        except BaseException:
            end(process)
            raise
        finally:
            INTERRUPTS.groups.discard(process.pid)
    return subprocess.CompletedProcess(words, process.returncode, out or b"", err)


@contextlib.contextmanager
def _readable(content: bytes | int) -> Iterator[int]:
    """Yield a descriptor from which a program reads `content`.

    No pipe: once `communicate` has timed out it sends nothing more of its input (CPython 3.11 to
    3.13), and a program that had not read all by then would wait for the rest without end.
    """
    if isinstance(content, int):
        yield content
        return
    descriptor = os.memfd_create("stdin") if content else os.open(os.devnull, os.O_RDONLY)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
        if content:
            os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _said(
    process: "subprocess.Popen[bytes]", before: int, most: tuple[float, float]
) -> tuple[bytes, bytes]:
    timeout_s, patience_s = most
    end = time.monotonic() + timeout_s
    is_interrupted = False
    while True:
        left = end - time.monotonic()
        try:
            return process.communicate(timeout=max(0.0, min(LOOK_S, left)))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= end:
                if is_interrupted:
                    raise asyncio.CancelledError from None
                raise subprocess.TimeoutExpired(process.args, timeout_s) from None
        if INTERRUPTS.count != before and not is_interrupted:
            is_interrupted = True
            end = min(end, time.monotonic() + patience_s)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Tell a program and its group to end, kill those that do not, and reap it."""
    if process.returncode is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):
            os.killpg(process.pid, number)
        until = time.monotonic() + ENDING_S
        while time.monotonic() < until and not _has_ended(process.pid):
            time.sleep(0.01)
    process.wait()


def _has_ended(pid: int) -> bool:
    """Whether a child has ended; it is not reaped, so that its group's number stays its own."""
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, pid, flags) is not None


__all__ = ["INTERRUPTS", "LOOK_S", "Interrupts", "completed", "end"]
