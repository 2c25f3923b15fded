"""Takes a repository as a base, with a tree for a plan; prints the peak of memory of its git.

Arguments: the repository, an empty folder for what is kept of it.
"""

import asyncio
import resource
import sys
from pathlib import Path

from patchyard.workspaces.copy import CopyWorkspaces
from patchyard.workspaces.pinned import GitTrees


async def main(repository: Path, folder: Path) -> None:
    trees = GitTrees(folder / "home")
    base = await trees.snapshot(repository)
    workspaces = CopyWorkspaces(trees, folder / "plans")
    ref = await workspaces.create(base, workspace_id="w1")
    root = await workspaces.open(base, ref)
    sizes = sum(each.lstat().st_size for each in root.iterdir())
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    sys.stdout.write(f"{child * 1024} {sizes}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
