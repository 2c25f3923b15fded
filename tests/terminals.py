"""A terminal with somebody before it, for programs that are used at one."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["CTRL_C", "Terminal", "at_a_terminal"]

CTRL_C = "\x03"


@dataclass(kw_only=True)
class Terminal:
    """The user's side of a terminal that a program runs on."""

    process: subprocess.Popen[bytes]
    descriptor: int
    _seen: bytes = field(default=b"", init=False)

    def wait_for(self, text: str) -> str:
        """Read until `text` is there; return what came before, and forget both."""
        wanted = text.encode()
        while wanted not in self._seen:
            self._seen += os.read(self.descriptor, 4096)
        before, _, self._seen = self._seen.partition(wanted)
        return before.decode()

    def rest(self) -> str:
        """Read until the program has closed the terminal."""
        try:
            while piece := os.read(self.descriptor, 4096):
                self._seen += piece
        except OSError:  # Linux says so when nobody holds the other side
            pass
        return self._seen.decode()

    def type(self, text: str) -> None:
        """Type it."""
        os.write(self.descriptor, text.encode())


@contextmanager
def at_a_terminal(
    words: Sequence[str], *, cwd: Path, environ: Mapping[str, str], columns: int = 100
) -> Iterator[Terminal]:
    """Run a program with a terminal of its own; it has ended after the block."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    try:
        process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *words],
            cwd=cwd,
            env=dict(environ),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        yield Terminal(process=process, descriptor=ours)
        process.wait(timeout=120)
    finally:
        os.close(ours)
