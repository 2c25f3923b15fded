"""The usual change that tests of hand-over make, and how it is ordered."""

import hashlib
from collections.abc import Sequence

from laboratory import Lab, git
from patchyard.contracts.handover import Order
from patchyard.domain.changeset import Base, ChangeSet

__all__ = ["EDITS", "FILES", "begun", "order", "with_large_files"]

FILES = {"a.txt": "one\ntwo\nthree\nfour\nfive\n", "b/c.txt": "c\n", "gone.txt": "bye\n"}
EDITS: dict[str, str | bytes | None] = {
    "a.txt": "ONE\ntwo\nthree\nfour\nfive\n",
    "gone.txt": None,
    "new/deep.txt": "n\n",
}


def order(to: str, *, name: str = "patchyard/p1", allow: Sequence[str] = ()) -> Order:
    """Ask for the hand-over `to` somewhere."""
    return Order(to=to, name=name, message="Mend it\n", allow_paths=tuple(allow))


async def begun(lab: Lab) -> tuple[Base, ChangeSet]:
    """Commit the files and return their base and the change."""
    lab.write(FILES)
    lab.commit()
    base = await lab.base()
    return base, await lab.changed(base, EDITS)


def with_large_files(lab: Lab) -> bytes:
    """A checkout as git-lfs leaves it: content in the tree, a pointer in the commit."""
    content = b"\0big" * 100
    digest = hashlib.sha256(content).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 400\n"
    lab.write({".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "a": "a\n"})
    lab.write({"x.bin": pointer})
    lab.commit()
    lab.write({"x.bin": content})
    git(lab.repo, "config", "filter.lfs.clean", f"printf '{pointer}' #")
    git(lab.repo, "add", "x.bin")
    assert git(lab.repo, "status", "--porcelain") == ""
    return content
