"""Which paths a glob names: `*` and `?` within a folder, `**` over folders, `{a,b}` as choices."""

import functools
import re

# Folders that searches pass over too: they hold no sources, and a glob never reaches into them.
SKIPPED = frozenset(
    {".cache", ".git", ".hg", ".idea", ".mypy_cache", ".next", ".nox", ".pytest_cache",
     ".ruff_cache", ".svn", ".tox", ".turbo", ".venv", "__pycache__", "build", "dist",
     "node_modules", "site-packages", "venv"}
)  # fmt: skip

TOKEN = re.compile(r"\*\*/|/\*\*$|\*\*|\*|\?|\[!?\]?[^\]]*\]|\{[^{}]*\}|.", re.DOTALL)


def matches(glob: str, path: str) -> bool:
    """Whether `glob` names the relative POSIX `path`; skipped folders are never named.

    A glob without a slash names files in any folder.
    """
    if any(part in SKIPPED for part in path.split("/")[:-1]):
        return False
    return _pattern(glob).fullmatch(path) is not None


@functools.lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    tidy = glob.removeprefix("./").lstrip("/")
    if "/" not in tidy:
        tidy = f"**/{tidy}"
    translated = "".join(_translated(match[0]) for match in TOKEN.finditer(tidy))
    try:
        return re.compile(translated, re.DOTALL)
    except re.error:
        return re.compile(re.escape(tidy))


def _translated(token: str) -> str:
    fixed = {"**/": "(?:[^/]+/)*", "/**": "/.+", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in fixed:
        return fixed[token]
    if len(token) > 2 and token[0] == "[":
        body = token[1:-1].replace("\\", r"\\")
        negated = f"^{body[1:]}" if body.startswith("!") else body.replace("^", r"\^", 1)
        return f"(?!/)[{negated}]"
    if len(token) > 1 and token[0] == "{":
        return "(?:" + "|".join(_choice(part) for part in token[1:-1].split(",")) + ")"
    return re.escape(token)


def _choice(part: str) -> str:
    return "".join(_translated(match[0]) for match in TOKEN.finditer(part))


def fixed_folder(glob: str) -> str:
    """Return the folder that all named paths lie in, empty for the top."""
    if "/" not in glob.removeprefix("./"):
        return ""
    kept = []
    for part in glob.removeprefix("./").lstrip("/").split("/")[:-1]:
        if re.search(r"[*?\[{]", part):
            break
        kept.append(part)
    return "/".join(kept)


__all__ = ["SKIPPED", "TOKEN", "fixed_folder", "matches"]
