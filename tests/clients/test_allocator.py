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


def faults(*, kept: bool) -> int:
    """Return how many pages the kernel was asked for by a hundred blocks of a megabyte."""
    program = GROWING.format(kept=kept)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
def test_a_block_that_grows_finds_its_pages_again() -> None:
    assert faults(kept=True) < faults(kept=False) / 10
