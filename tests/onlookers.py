"""Another user of this machine, who reads the command lines of all processes again and again."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

__all__ = ["Onlooker", "looking"]

READING = """
import os, sys
marker = sys.stdin.buffer.readline().strip()
os.set_blocking(0, False)
print("looking", flush=True)

def is_over():
    try:
        return not os.read(0, 1)
    except BlockingIOError:
        return False

seen, is_last = set(), False
while not is_last:
    is_last = is_over()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % name, "rb") as file:
                words = file.read()
        except OSError:
            continue
        if marker in words:
            seen.add(words.replace(b"\\0", b" ").replace(b"\\n", b" "))
for words in sorted(seen):
    print(words.decode("ascii", "replace"))
"""
NOBODY = 65534


class Onlooker:
    """What was seen; complete once the block is over."""

    def __init__(self) -> None:
        self.seen: list[str] = []


@contextlib.contextmanager
def looking(marker: str) -> Iterator[Onlooker]:
    """Look for `marker` in command lines during the block; a last time at its end."""
    found = Onlooker()
    is_root = os.geteuid() == 0
    python = "/usr/bin/python3" if is_root else sys.executable  # ours may lie in a closed home
    with subprocess.Popen(
        [python, "-I", "-S", "-c", READING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=NOBODY if is_root else None,
        cwd="/",
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{marker}\n".encode())
        process.stdin.flush()
        assert process.stdout.readline() == b"looking\n"
        try:
            yield found
        finally:
            process.stdin.close()
            found.seen = process.stdout.read().decode().splitlines()
