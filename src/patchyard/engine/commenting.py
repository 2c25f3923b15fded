"""What people say of single lines of a change set; the next try is told."""

from collections.abc import Sequence
from dataclasses import dataclass

from patchyard.domain.changeset import Base, Change
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.state import PlanState
from patchyard.domain.steering import Commented
from patchyard.engine.directing import require_guidance
from patchyard.engine.equipment import Equipment
from patchyard.engine.handing import Handing
from patchyard.engine.lifecycle import PlanLifecycleService


@dataclass(frozen=True, kw_only=True)
class Remark:
    """A text on one line."""

    path: str  # of a file that the change set names
    line: int  # 1, 2, 3 ... after the change; before it in a file that was deleted
    text: str


async def comment(equipment: Equipment, plan_id: str, remarks: Sequence[Remark]) -> None:
    """Keep all remarks on a plan's change set, or none.

    Raises GuardRefused without a change set, UnknownName for a file that did not change, UsageError
    for a line that the file does not have.
    """
    async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
        base, changeset = await Handing(equipment, ledger).changeset()
        changed = {change.path: change for change in changeset.changes}
        for remark in remarks:
            require_guidance(remark.text)
            if remark.path not in changed:
                raise UnknownName.among("changed file", remark.path, changed)
            await _require_line(equipment, base, changed[remark.path], remark.line)
        said = [
            Commented(path=each.path, line=each.line, text=each.text, changeset_id=changeset.id)
            for each in remarks
        ]
        await ledger.record(*said)


async def _require_line(equipment: Equipment, base: Base, change: Change, line: int) -> None:
    blob = change.blob or change.old_blob
    content = await equipment.trees.blob(base, blob) if blob else b""
    lines = content.count(b"\n") + (content[-1:] not in (b"", b"\n"))
    if not change.is_binary and not 1 <= line <= max(lines, 1):
        raise UsageError(
            f"{change.path} has no line {line}",
            hint=f"its last line is {lines}" if lines else "it is empty; line 1 stands for it",
        )


def comments_on(state: PlanState) -> Sequence[Commented]:
    """Return what was said of the change set that the plan has now, oldest first."""
    now = state.changeset.changeset_id if state.changeset is not None else ""
    return [each for each in state.steered.comments if each.changeset_id == now]


__all__ = ["Remark", "comment", "comments_on"]
