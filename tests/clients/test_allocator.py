"""Memory of large blocks: what grows a little with each request asks for no fresh pages."""

import platform
import subprocess
import sys

import pytest

GROWING = """\
import resource
from patchyard.clients.allocator import keep_large_blocks
if {kept}: keep_large_blocks()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
block = b"".join([b"x" * 1000] * 1000)
before = faults()
for number in range(100):
    del block
    block = b"".join([b"x" * 1000] * (1000 + 4 * number))
print(faults() - before)
"""
REPEATED = """\
import resource
from patchyard.toolbox.server import keep_large_blocks
if {kept}: keep_large_blocks()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = faults()
for number in range(100):
    output = b"x" * 1_000_000
    text = output.decode("ascii")
    del output, text
print(faults() - before)
"""


def faults(program: str, *, kept: bool) -> int:
    """Return how many pages the kernel was asked for by a hundred blocks of a megabyte."""
    program = program.format(kept=kept)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
@pytest.mark.parametrize("program", [GROWING, REPEATED], ids=["engine", "toolbox"])
def test_a_large_block_finds_its_pages_again(program: str) -> None:
    assert faults(program, kept=True) < faults(program, kept=False) / 10
