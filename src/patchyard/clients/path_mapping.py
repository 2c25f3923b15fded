"""Where one workspace lies under two paths: what is said of it goes through here, both ways. Pure.

Outside texts only whole paths are meant: `/src/shop` is neither in `/src/shop2` nor in
`/mnt/src/shop`. A path that is already the other side's stays, also where one lies in the other.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TEXTS = ("message", "path", "cwd", "stdout", "stderr")
LISTS = ("paths", "near")
"""Of results. File contents are none of them: what a file says stays as it is."""


@dataclass(frozen=True, kw_only=True)
class PathMapping:
    """The workspace's path as the plan names it, and as its environment does."""

    here: str  # absolute, without a slash at its end
    there: str  # likewise

    def arguments(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's arguments as they are meant there."""
        made = dict(args)
        for name in ("path", "cwd"):
            if isinstance(made.get(name), str):
                made[name] = self.inward(made[name])
        if isinstance(made.get("command"), str):
            made["command"] = self.text_inward(made["command"])
        if isinstance(made.get("env"), Mapping):
            made["env"] = {
                name: self.text_inward(value) if isinstance(value, str) else value
                for name, value in made["env"].items()
            }
        return made

    def result(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return a result with the plan's paths in it."""
        made = dict(result)
        for name in TEXTS:
            if isinstance(made.get(name), str):
                made[name] = self.text_outward(made[name])
        for name in LISTS:
            if isinstance(made.get(name), list):
                made[name] = [
                    self.text_outward(each) if isinstance(each, str) else each
                    for each in made[name]
                ]
        return made

    def inward(self, path: str) -> str:
        """Return one path, or a link's target, as it is there."""
        return _moved(path, self.here, self.there)

    def outward(self, path: str) -> str:
        """Return one path, or a link's target, as the plan has it."""
        return _moved(path, self.there, self.here)

    def text_inward(self, text: str) -> str:
        """Return a text with every path of the workspace as it is there."""
        return _put(text, self.here, self.there)

    def text_outward(self, text: str) -> str:
        """Return a text with every path of the workspace as the plan has it."""
        return _put(text, self.there, self.here)


def _moved(path: str, source: str, target: str) -> str:
    if _is_below(target, source) and _is_below(path, target):
        return path  # already the other side's
    return target + path[len(source) :] if _is_below(path, source) else path


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _put(text: str, source: str, target: str) -> str:
    if source not in text:
        return text
    pattern = _pattern(source, target)
    return pattern.sub(lambda found: target if found[0] == source else found[0], text)


@functools.lru_cache(maxsize=64)
def _pattern(source: str, target: str) -> re.Pattern[str]:
    """Return what finds either path; the longer one first, as the other may be its beginning."""
    either = "|".join(re.escape(each) for each in sorted((source, target), key=len, reverse=True))
    return re.compile(rf"(?:(?<![\w./-])|(?<=://))(?:{either})(?![\w-]|\.\w)")


__all__ = ["LISTS", "TEXTS", "PathMapping"]
