"""The base's ignore rules, asked of git in a folder of ours that holds nothing but the rules."""

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from patchyard.clients.blobreader import BlobReader
from patchyard.clients.git import Git, failure
from patchyard.clients.scratch import make_scratch
from patchyard.domain.changeset import Base
from patchyard.domain.names import is_dot_git
from patchyard.workspaces.sight import Entries, Named, Tracked, is_whiteout
from patchyard.workspaces.store import parts

NAME = ".gitignore"

# Folders that tools fill by themselves: never a change, unless the base tracks what lies there or
# its rules say otherwise. They come first, so every rule of the user's is stronger.
CACHE_FOLDERS = (
    "__pycache__",
    ".hypothesis",
    ".mypy_cache",
    ".nox",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
    ".venv",
    "node_modules",
)


class Ignores:
    """The rules of one base. Made on the first question; a context manager that clears up."""

    def __init__(self, git: Git, base: Base, entries: Entries) -> None:
        """Take the base; `git` looks at its store."""
        self._git = git
        self._base = base
        self._entries = entries
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Delete the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder)

    def among_untracked(self, tracked: Tracked, named: Iterable[Named]) -> set[str]:
        """Return which of the walked entries are neither the base's nor to be looked at."""
        files: list[str] = []
        folders: list[str] = []
        for path, status, _ in named:
            if path in tracked.entries or tracked.is_folder(path) or is_whiteout(status):
                continue
            if not is_dot_git(path.rpartition("/")[2]):
                (folders if stat.S_ISDIR(status.st_mode) else files).append(path)
        return self.among(files, folders)

    def among(self, files: Iterable[str], folders: Iterable[str]) -> set[str]:
        """Return which of these untracked paths the base ignores."""
        asked = sorted({*files, *(folders := set(folders))})
        if not asked:
            return set()
        made = self._folder or self._prepare()
        tree = made / "tree"
        for path in folders:
            _make_folder(tree, path)
        git = self._git.at(made / "git", work_tree=tree, extra={"GIT_LITERAL_PATHSPECS": "0"})
        stdin = os.fsencode("".join(f"./{path}\0" for path in asked))
        done = git.attempt("check-ignore", "--no-index", "--stdin", "-z", stdin=stdin, cwd=tree)
        if done.code not in {0, 1}:
            raise failure(["check-ignore"], done.code, done.err)
        return {path.removeprefix("./") for path in parts(done.out)}

    def _prepare(self) -> Path:
        made = make_scratch(self._git.home.parent, "rules")
        self._folder = made
        for name in ("git/refs", "git/objects", "git/info", "tree"):
            (made / name).mkdir(parents=True)
        (made / "git" / "HEAD").write_text("ref: refs/heads/base\n")
        # Without a slash at the end: a link of that name would lead a proof to other programs.
        own = "".join(f"{name}\n" for name in CACHE_FOLDERS).encode()
        excludes = b""
        if self._base.excludes:
            excludes = self._git.run("cat-file", "blob", self._base.excludes)
        (made / "git" / "info" / "exclude").write_bytes(own + excludes)
        rules = {
            path: blob
            for path, (mode, blob) in self._entries.items()
            if path.endswith(NAME) and path.rpartition("/")[2] == NAME and mode.startswith("100")
        }
        if rules:
            with BlobReader(self._git) as blobs:
                for path, blob in rules.items():
                    place = made / "tree" / path
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(blobs.content(blob))
        return made


def _make_folder(tree: Path, path: str) -> None:
    """Make the folder for the question, so that rules for folders alone see what it is."""
    at = tree
    for name in path.split("/"):
        at /= name
        try:
            at.mkdir()
        except FileExistsError:
            if not stat.S_ISDIR(at.lstat().st_mode):
                return


__all__ = ["CACHE_FOLDERS", "Ignores"]
