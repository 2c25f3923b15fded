"""Hands one large file over to a branch and a merge; prints the peaks of memory in bytes.

Its own beyond what it had when it began, and that of its largest child. Arguments: an empty folder,
the bytes of the file, which is noise.
"""

import asyncio
import random
import resource
import sys
from pathlib import Path

from handovers import order
from laboratory import git, lab_at, started
from patchyard.workspaces.handover import GitHandOver


async def main(folder: Path, size: int) -> None:
    lab = lab_at(folder, "copy")
    base = await started(lab)
    ref, root = await lab.workspace(base)
    noise = random.Random(11)
    with (root / "big.bin").open("wb") as file:
        for _ in range(size // 2**20):
            file.write(noise.randbytes(2**20))
    changeset = await lab.workspaces.capture(base, ref)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    handover = GitHandOver(lab.trees)
    for to in ("branch", "merge"):
        wanted = order(to)
        async with handover.turn(base):
            intent = await handover.plan(base, changeset, wanted)
            receipt = await handover.carry_out(base, changeset, wanted, intent)
        if git(lab.repo, "cat-file", "-s", f"{receipt.commit}:big.bin").strip() != str(size):
            raise RuntimeError(to)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    sys.stdout.write(f"{own * 1024} {child * 1024}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
