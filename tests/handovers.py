"""The usual change that tests of hand-over make, and how it is ordered."""

from collections.abc import Sequence

from laboratory import Lab
from patchyard.contracts.handover import Order
from patchyard.domain.changeset import Base, ChangeSet

__all__ = ["EDITS", "FILES", "begun", "order"]

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
