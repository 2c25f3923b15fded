"""fnmatch patterns that hold below any folder, of which one expression asks many at once."""

import fnmatch
import functools
import re


@functools.lru_cache(maxsize=256)
def anywhere(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return what matches a path where one of `patterns` fits it, or its rest below a folder."""
    either = "|".join(map(fnmatch.translate, patterns))
    return re.compile(rf"(?s:.*/)?(?:{either})")


__all__ = ["anywhere"]
