"""What is said of a base or a result that is lost, with the way back. Pure."""

from collections.abc import Sequence

from patchyard.domain.changeset import Base
from patchyard.domain.errors import Unavailable, named_paths

FROM_CHECKPOINT = (
    "`agents plan rollback ID` lists the plan's checkpoints: go back to the last, and `agents plan"
    " resume ID` makes the result anew; without one begin the task anew with `agents run`"
)


def gone(base: Base) -> Unavailable:
    """Return the error of a base whose store was deleted and cannot be made again."""
    return Unavailable(
        f"the base of this plan was deleted ({base.store}), and {base.repository} does not hold"
        " the same any more",
        hint="bring the checkout back to what it was and resume, or begin the task anew with"
        " `agents run` or `agents plan use`",
    )


def damaged(base: Base, lost: Sequence[str]) -> Unavailable:
    """Return the error of a base whose store lacks the paths `lost`, or its history."""
    what = f"it lacks {named_paths(lost)}" if lost else "its history cannot be read"
    return Unavailable(
        f"the base of this plan is damaged in {base.store}: {what}, and {base.repository} does not"
        " hold the same any more",
        hint="bring the checkout back to what it was (the lost files are enough), or the store from"
        " a backup, and resume; else begin the task anew with `agents run` or `agents plan use`",
        details={"lost": list(lost)},
    )


def lost_result(base: Base, tree: str, lost: Sequence[str]) -> Unavailable:
    """Return the error of a result, the tree `tree`, of which the paths `lost` are gone."""
    if all(lost):
        said = f"the result of this plan is damaged: {base.store} lost {named_paths(lost)}"
    else:
        said = f"the result of this plan was deleted: {base.store} does not hold {tree}"
    return Unavailable(said, hint=FROM_CHECKPOINT, details={"lost": list(lost)})


__all__ = ["damaged", "gone", "lost_result"]
