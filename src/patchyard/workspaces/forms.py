"""Between the bytes of a checkout and what a commit holds, at hand-over: git's own conversions.

No filter program runs. LFS pointers are written by us; other filters are left to the user's git.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchyard.clients.git import Git, text
from patchyard.clients.scratch import scratch
from patchyard.domain.changeset import Base
from patchyard.domain.errors import StateRefusal
from patchyard.workspaces.conversions import (
    LFS_POINTER,
    driver,
    lfs_pointer,
    may_convert,
    rules_for,
)
from patchyard.workspaces.edits import Content
from patchyard.workspaces.source import Source


@dataclass(frozen=True, kw_only=True)
class Forms:
    """The conversions of one tree's attributes for some paths."""

    git: Git  # looks at the rules, with the store's objects
    source: Source
    rules: Mapping[str, Mapping[str, str]]  # of the paths that may convert
    large: dict[str, str] = field(default_factory=dict)  # SHA-256 of LFS content to its blob

    def converts(self, path: str) -> bool:
        """Whether the two forms of this path may differ."""
        return path in self.rules

    def normalised(self, path: str, raw: Content | None) -> Content | None:
        """Return what a commit holds for these bytes of a checkout."""
        if raw is None or path not in self.rules or not raw[0].startswith("100"):
            return raw
        content = self.git.run("cat-file", "blob", raw[1])
        name = driver(self.rules[path], self.source)
        if name == "lfs":
            if not content.startswith(LFS_POINTER):
                digest = hashlib.sha256(content).hexdigest()
                self.large[digest] = raw[1]
                content = lfs_pointer(digest, len(content))
            return raw[0], self._keep(content)
        if name:
            raise StateRefusal(
                f"{path!r} goes through the filter {name!r}, which is the user's to run",
                hint="apply to the work tree (--to worktree) and commit there",
                details={"path": path, "filter": name},
            )
        out = self.git.run("hash-object", "-w", f"--path={path}", "--stdin", stdin=content,
                           cwd=self.git.work_tree)  # fmt: skip
        return raw[0], text(out)

    def raw(self, path: str, normalised: Content | None) -> Content | None:
        """Return the bytes a checkout has for what a commit holds."""
        if normalised is None or path not in self.rules or not normalised[0].startswith("100"):
            return normalised
        name = driver(self.rules[path], self.source)
        if name:
            raise StateRefusal(
                f"{path!r} goes through the filter {name!r}, which is the user's to run",
                hint="start the plan from the checkout as it is, or hand over as a branch",
                details={"path": path, "filter": name},
            )
        out = self.git.run("cat-file", "--filters", f"--path={path}", normalised[1],
                           cwd=self.git.work_tree)  # fmt: skip
        return normalised[0], self._keep(out)

    def _keep(self, content: bytes) -> str:
        return text(self.git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=content))


@contextlib.contextmanager
def opened(
    git: Git, base: Base, source: Source, entries: Mapping[str, Content], paths: list[str]
) -> Iterator[Forms]:
    """Lay out the attributes of the tree `entries` and yield the forms of `paths`."""
    with scratch(git.home.parent, "forms") as folder:
        for name in ("git/refs", "git/objects", "git/info", "tree"):
            (folder / name).mkdir(parents=True)
        (folder / "git" / "HEAD").write_text("ref: refs/heads/base\n")
        shutil.copyfile(Path(base.store) / "config", folder / "git" / "config")
        if base.attributes:
            rules = git.run("cat-file", "blob", base.attributes)
            (folder / "git" / "info" / "attributes").write_bytes(rules)
        for path, (mode, blob) in entries.items():
            if mode.startswith("100") and path.rpartition("/")[2] == ".gitattributes":
                place = folder / "tree" / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(git.run("cat-file", "blob", blob))
        looking = Git(
            home=git.home,
            config=git.config,
            git_dir=folder / "git",
            work_tree=folder / "tree",
            extra={"GIT_OBJECT_DIRECTORY": os.fspath(Path(base.store) / "objects")},
            further=dict(base.conversions),
        )
        found = rules_for(looking, paths, base.conversions)
        doubtful = {path: how for path, how in found.items() if may_convert(how, source)}
        yield Forms(git=looking, source=source, rules=doubtful)


__all__ = ["Forms", "opened"]
