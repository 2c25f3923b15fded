"""Paths that run by themselves or steer agents, as data: a change to one needs `--allow-path`."""

import fnmatch
import functools
from collections.abc import Iterable, Iterator

from patchyard.domain.changeset import Change, Finding, FindingKind
from patchyard.domain.links import TreeLinks
from patchyard.domain.name_patterns import NamePatterns, below_any, own_match
from patchyard.domain.tree_names import TreeNames

# fnmatch patterns on lower-cased relative paths; a pattern without a slash is for any folder.
PATTERNS: tuple[str, ...] = (
    # hooks and what git itself reads
    ".gitattributes",
    ".gitmodules",
    ".gitconfig",
    ".git-blame-ignore-revs",
    ".githooks/*",
    ".husky/*",
    ".lefthook/*",
    "lefthook.y*ml",
    ".pre-commit-config.y*ml",
    ".pre-commit-hooks.y*ml",
    # continuous integration
    ".github/workflows/*",
    ".github/actions/*",
    ".github/dependabot.y*ml",
    ".gitlab-ci.y*ml",
    ".gitlab/*",
    ".gitea/*",
    ".forgejo/*",
    ".circleci/*",
    ".drone.y*ml",
    ".woodpecker.y*ml",
    ".woodpecker/*",
    ".travis.y*ml",
    ".buildkite/*",
    ".cirrus.y*ml",
    "appveyor.y*ml",
    ".appveyor.y*ml",
    "azure-pipelines*.y*ml",
    "bitbucket-pipelines.y*ml",
    "jenkinsfile*",
    ".ci/*",
    # editors and shells
    ".envrc",
    ".env",
    ".env.*",
    ".vscode/*",
    ".idea/*",
    ".zed/*",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    ".vimrc",
    ".dir-locals.el",
    "*.code-workspace",
    ".devcontainer/*",
    ".devcontainer.json",
    ".tool-versions",
    "mise.toml",
    ".mise.toml",
    ".mise/*",
    # package managers
    ".npmrc",
    ".yarnrc",
    ".yarnrc.y*ml",
    ".yarn/releases/*",
    ".yarn/plugins/*",
    ".pnpmfile.cjs",
    ".pypirc",
    "pip.conf",
    ".cargo/config*",
    ".bundle/config",
    ".mvn/*",
    "gradle/wrapper/*",
    # Python starts these by itself
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
    # what steers agents
    "agents.md",
    "agents.override.md",
    "claude.md",
    "claude.local.md",
    "gemini.md",
    "copilot-instructions.md",
    ".mcp.json",
    ".agents/*",
    ".aider*",
    ".claude/*",
    ".codex/*",
    ".continue/*",
    ".cursor/*",
    ".cursorrules",
    ".clinerules*",
    ".gemini/*",
    ".opencode/*",
    ".roo/*",
    ".windsurf/*",
    ".windsurfrules",
    ".patchyard/*",
)


@functools.cache
def _patterns() -> NamePatterns:
    """Return the list as patterns that can be followed through links."""
    return NamePatterns([below_any(pattern) for pattern in PATTERNS])


def protected_by(path: str) -> str:
    """Return the pattern that protects `path` by its own name; empty when none does."""
    return own_match(_patterns(), path)


def protection(changes: Iterable[Change], links: TreeLinks) -> Iterator[Finding]:
    """Yield a finding for each changed path that the list protects under one of its names."""
    for path, match in TreeNames(changes, links).matching(_patterns()).items():
        by = f", by the link {match.link!r}" if match.link else ""
        yield Finding(
            kind=FindingKind.PROTECTED_PATH,
            path=path,
            message=f"runs by itself or steers agents ({match.pattern}{by})",
        )


def is_allowed(path: str, globs: tuple[str, ...]) -> bool:
    """Whether one of the user's `--allow-path` globs names `path`."""
    return any(
        path == glob or fnmatch.fnmatchcase(path, glob) or path.startswith(f"{glob.rstrip('/')}/")
        for glob in globs
    )


__all__ = ["PATTERNS", "is_allowed", "protected_by", "protection"]
