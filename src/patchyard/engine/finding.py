"""Finding plans by what people type: a ULID, a unique prefix, or `@last`."""

from collections.abc import Mapping, Sequence
from typing import Any

from patchyard.contracts.journal import Summaries
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.ids import is_prefix
from patchyard.domain.lineage import Kinship

LAST = "@last"
TIMES = frozenset({"created", "updated"})  # seconds since the epoch
LATEST = 2.0**38  # of them, in the year 10,680: what lies beyond is damage
LISTED = frozenset({"plan_id", "task", "repository", "phase", "state"}) | TIMES


async def find_plan(
    summaries: Summaries, text: str, *, repository: str, is_more_taken: bool = False
) -> str:
    """Return the id of the plan that `text` names; `@last` is the one of `repository` begun last.

    With `is_more_taken` the command takes further words beside the plan, and the hints say so.
    Raises UsageError when there is none, or when a prefix fits several.
    """
    beside = f"; `@last {text}` where {text} is something of the newest plan" * is_more_taken
    rows = await summaries.summaries()
    if text == LAST:
        own = [stream for stream, row in rows if _is_of(row, repository) and not _is_beside(row)]
        if not own:
            raise UsageError(
                f"there is no plan of {repository} yet",
                hint="`agents run TASK` makes one; `agents plan list --all` shows every plan",
            )
        return own[0]
    if not is_prefix(text):
        raise UsageError(
            f"{text!r} is no plan id",
            hint=f"give a ULID, the beginning of one, or @last{beside}",
        )
    found = [stream for stream, _ in rows if stream.startswith(text.upper())]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownName(
            f"there is no plan {text} in this database",
            hint="`agents plan list --all` shows the plans; PATCHYARD_HOME chooses the database"
            f"{beside}",
        )
    raise UsageError(
        f"{text} fits {len(found)} plans", hint=f"write more of it: {', '.join(found[:5])}"
    )


async def list_plans(
    summaries: Summaries, *, repository: str | None
) -> Sequence[Mapping[str, Any]]:
    """Return the summaries, newest first; of `repository` alone when given."""
    rows = [_listed(*each) for each in await summaries.summaries()]
    return [row for row in rows if repository is None or _is_of(row, repository)]


def _listed(stream: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row, or one that says that it is damaged."""
    if is_sound(row):
        return row
    said = f"(its line is damaged: agents plan verify {stream})"
    usable = {name: value for name, value in row.items() if _fits(name, value)}
    blank = {**dict.fromkeys(LISTED, ""), "created": 0.0}
    return {**blank, "plan_id": stream, "task": said, **usable}


def is_sound(row: Mapping[str, Any]) -> bool:
    """Whether a line of the list has all that each line has, each of its kind."""
    return row.keys() >= LISTED and all(_fits(name, row[name]) for name in LISTED)


def _fits(name: str, value: object) -> bool:
    if name in TIMES:
        return isinstance(value, int | float) and 0 <= value < LATEST
    return name not in LISTED or isinstance(value, str)


def _is_beside(row: Mapping[str, Any]) -> bool:
    """Whether it repeats another plan or works for one: nobody means it by "the newest"."""
    return row.get("kinship") in {Kinship.REPLAY, Kinship.COLLEAGUE}


def _is_of(row: Mapping[str, Any], repository: str) -> bool:
    root = str(row.get("repository", ""))
    return repository == root or repository.startswith(root.rstrip("/") + "/")


__all__ = ["LAST", "LATEST", "LISTED", "TIMES", "find_plan", "is_sound", "list_plans"]
