"""Captures and reads a change set of one large text; prints the peaks of memory in bytes.

Its own (private, beyond what it had when it began), that of its largest child, and the bytes of
the patch. Arguments: an empty folder, the bytes of the text.
"""

import asyncio
import resource
import sys
from pathlib import Path

from laboratory import lab_at, started

LINE = b"y\n"


async def main(folder: Path, size: int) -> None:
    lab = lab_at(folder, "copy")
    base = await started(lab)
    ref, root = await lab.workspace(base)
    with (root / "big.txt").open("wb") as file:
        for _ in range(size // 2**20):
            file.write(LINE * 2**19)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    changeset = await lab.workspaces.capture(base, ref)
    patch = 0
    async for piece in lab.trees.diff(base, changeset):
        patch += len(piece)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    sys.stdout.write(f"{own * 1024} {child * 1024} {patch}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
