"""What a review or a test is about, read from our own store: two trees and what lies between."""

import asyncio
from collections.abc import Mapping, Sequence

from patchyard.clients.git import Git, text
from patchyard.contracts.subjects import Subject
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.workspaces.commits import tree_with
from patchyard.workspaces.edits import Edit
from patchyard.workspaces.pinned import GitTrees

REGULAR = frozenset({"100644", "100755"})
TITLE_CHARS = 100


class GitSubjects:
    """contracts.subjects.Subjects over our trees."""

    def __init__(self, trees: GitTrees) -> None:
        self._trees = trees

    async def subject(self, base: Base, *, before: str = "") -> Subject | None:
        """See contracts.subjects."""
        return await asyncio.to_thread(self._subject, base, before)

    async def without(self, base: Base, subject: Subject, changeset: ChangeSet) -> str:
        """See contracts.subjects."""
        edits = []
        for change in changeset.changes:
            if change.old_path is not None:
                edits.append(Edit(path=change.old_path, before=None, after=None))
            after = (change.mode, change.blob) if change.mode and change.blob else None
            edits.append(Edit(path=change.path, before=None, after=after))
        git = self._trees.git_of(base)
        return await asyncio.to_thread(tree_with, git, subject.before, edits)

    async def lines(self, base: Base, paths: Sequence[str]) -> Mapping[str, int]:
        """See contracts.subjects."""
        return await asyncio.to_thread(self._lines, base, paths)

    def _lines(self, base: Base, paths: Sequence[str]) -> Mapping[str, int]:
        entries, git = self._trees.entries(base, base.tree), self._trees.git_of(base)
        found = {}
        for path in paths:
            mode, blob = entries.get(path, ("", ""))
            if mode in REGULAR:
                content = git.run("cat-file", "blob", blob)
                found[path] = len(content.removesuffix(b"\n").split(b"\n")) if content else 0
        return found

    def _subject(self, base: Base, known: str) -> Subject | None:
        if known:
            return self._between(self._trees.git_of(base), known, base, "the change of this task")
        if base.commit is None:
            return None
        git, history = self._trees.git_of(base), self._trees.history_of(base)
        past = git.at(history)
        tree = _tree(past, base.commit)
        if tree != base.tree:
            files = "file" if base.uncommitted == 1 else "files"
            return self._between(git, tree, base, f"{base.uncommitted} uncommitted {files}")
        before = _tree(past, f"{base.commit}^")
        if not before or git.attempt("cat-file", "-e", before).code != 0:
            return None
        about = text(past.run("log", "-1", "--format=%s", base.commit))
        title = f"commit {base.commit[:7]} {about}"[:TITLE_CHARS]
        return self._between(git, before, base, title)

    @staticmethod
    def _between(git: Git, before: str, base: Base, title: str) -> Subject | None:
        plain = ("--no-ext-diff", "--no-textconv", "--no-color")
        words = (*plain, "--src-prefix=a/", "--dst-prefix=b/")
        patch = git.run("diff-tree", "-p", "-r", "-M", *words, before, base.tree)
        names = git.run("diff-tree", "-r", "--name-only", "-z", before, base.tree)
        paths = [part.decode("utf-8", "surrogateescape") for part in names.split(b"\0") if part]
        if not paths:
            return None
        return Subject(
            title=title,
            before=before,
            after=base.tree,
            patch=patch.decode("utf-8", "replace"),
            paths=tuple(paths),
        )


def _tree(git: Git, commit: str) -> str:
    """Return the tree of a commit; empty where there is no such commit."""
    done = git.attempt("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")
    return done.out.decode("ascii").strip() if done.code == 0 else ""


__all__ = ["GitSubjects"]
