"""What stayed in a place that held a copy of the workspace, as findings. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from patchyard.domain.changeset import ChangeSet, Finding, FindingKind

MOST_CHARS = 6_000  # of paths and reasons in one event, which has 16 KB
KINDS = (
    (("a FIFO", "a socket", "a device", "of an unknown kind"), FindingKind.SPECIAL_FILE),
    (("its setuid bit",), FindingKind.SETUID),
    (("its attributes ",), FindingKind.XATTR),
    (("unreadable",), FindingKind.UNREADABLE),
    (("its name ",), FindingKind.REFUSED_NAME),
)
"""By how the reason begins; what is left are paths and files that are too large."""


def bounded(left: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return as many as one event holds."""
    kept: list[tuple[str, str]] = []
    room = MOST_CHARS
    for path, why in left:
        room -= 2 * len(path.encode("utf-8", "surrogateescape")) + len(why) + 10
        if room < 0:
            break
        kept.append((path, why))
    return tuple(kept)


def with_left_out(changeset: ChangeSet, left: Iterable[Sequence[tuple[str, str]]]) -> ChangeSet:
    """Return the change set with a finding for each path that stayed where it was made.

    They block nothing: nothing of them is here. Its id stays, as `guarded` lets it.
    """
    found = {
        (path, why): Finding(
            kind=_kind(why),
            path=path or ".",
            message=f"{why}: left where it was made",
            blocks_apply=False,
        )
        for pairs in left
        for path, why in pairs
    }
    more = tuple(found[key] for key in sorted(found))
    return replace(changeset, findings=(*changeset.findings, *more)) if more else changeset


def _kind(why: str) -> FindingKind:
    fitting = (kind for begins, kind in KINDS if why.startswith(begins))
    return next(fitting, FindingKind.TOO_LARGE)


__all__ = ["MOST_CHARS", "bounded", "with_left_out"]
