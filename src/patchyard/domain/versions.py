"""Versions of packages, put in order far enough for ranges of advisories. Pure."""

import re

_VERSION = re.compile(
    r"v?(?:\d+!)?(?P<release>\d{1,18}(?:\.\d{1,18}){0,9})(?P<rest>.{0,100})", re.IGNORECASE
)
_LATER = re.compile(r"[-_.]?(?:post|rev|r|p|sp|ga|final)[-_.]?(?P<number>\d*)\b", re.IGNORECASE)
_PART = re.compile(r"\d+|[a-z]+")

Key = tuple[tuple[int, ...], int, tuple[tuple[int, int, str], ...]]


def version_key(text: str) -> Key | None:
    """Return what versions are sorted by, None for what is no version.

    Numbers first; then what comes before a release (`rc1`, `-beta.2`, `.dev3`), the release itself,
    and what comes after it (`.post1`). Build marks (`+cuda`) count for nothing.
    """
    match = _VERSION.fullmatch(text.strip().partition("+")[0])
    if match is None:
        return None
    release = [int(part) for part in match["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    rest = match["rest"].lower()
    if not rest:
        return tuple(release), 0, ()
    parts = tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part.replace("dev", ""))
        for part in _PART.findall(rest)
    )
    return tuple(release), (1 if _LATER.fullmatch(rest) else -1), parts


__all__ = ["Key", "version_key"]
