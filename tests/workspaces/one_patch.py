"""Makes a patch for people of a change set; prints the peak of memory of its git, and the patch.

Argument: a file with the home of the trees, the base, the change set and the paths, as JSON.
"""

import asyncio
import json
import resource
import sys
from pathlib import Path
from typing import Any

from patchyard.contracts.trees import whole
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.codec import from_json
from patchyard.workspaces.pinned import GitTrees


async def main(given: dict[str, Any]) -> None:
    base, changeset = from_json(Base, given["base"]), from_json(ChangeSet, given["changeset"])
    trees = GitTrees(Path(given["home"]))
    patch = await whole(trees.diff(base, changeset, paths=given["paths"], has_binary=False))
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    sys.stdout.write(f"{child * 1024}\n")
    sys.stdout.flush()
    sys.stdout.buffer.write(patch)


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
