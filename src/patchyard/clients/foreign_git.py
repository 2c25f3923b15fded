"""Git on a repository that is not ours: every command there is, and why each is safe.

A stranger may have prepared that repository, its configuration, attributes, hooks and index. No
git of ours compares or reads a file of its work tree under its configuration, or starts a program
that it names. `tests/mainjob/test_armed_checkouts.py` compares these tables with what runs.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from patchyard.clients.git import Git, by_descriptor
from patchyard.clients.scratch import scratch
from patchyard.domain.errors import UsageError, WorkFailed

ITS_OWN: Mapping[str, str] = {
    "cat-file": "prints an object; never with --filters or --textconv",
    "config": "prints settings; files that are included are read as text",
    "for-each-ref": "prints refs by a format of ours",
    "ls-tree": "prints a tree object",
    "rev-parse": "resolves names by refs, objects and the index's entries; reads no file",
}
"""Run in the repository, under its configuration and ours over it."""

OURS: Mapping[str, str] = {
    "cat-file": "prints an object",
    "check-ref-format": "looks at a name alone",
    "for-each-ref": "prints refs by a format of ours",
    "ls-files": "prints the index's entries (--stage), without a look at a file",
    "merge-base": "reads commits",
    "rev-list": "reads commits and trees",
    "rev-parse": "resolves names by refs and objects",
    "symbolic-ref": "reads HEAD",
    "unpack-objects": "writes objects",
    "update-index": "reads files that may differ again; without a setting there is no filter",
    "update-ref": "writes refs and their logs; without a setting there is no hook",
}
"""Run by `stand_in`: the repository's refs, objects and index, but our configuration alone."""

VIEWED: Mapping[str, str] = {
    "check-attr": "reads attributes, which can only name what our configuration does not have",
    "check-ignore": "reads which folders are ignored",
    "diff-files": "compares files with a copy of the index; submodules are left out",
    "diff-index": "compares the copy of the index with a commit (--cached)",
    "hash-object": "stores files as git converts them by itself",
    "ls-files": "lists the copy of the index and untracked files",
}
"""Run in `workspaces.view`: a git directory of ours over the user's work tree."""

SERVED: Mapping[str, str] = {
    "clone": "runs upload-pack in the source; what is written has no hook, filter or template",
    "fetch": "runs upload-pack in a stand-in",
    "pack-objects": "reads objects; its hook counts in our own configuration alone",
    "upload-pack": "reads refs and objects; runs pack-objects",
}
"""Run in a repository of ours, and what that starts in the other one."""

BORROWED = ("logs", "objects", "refs", "reftable", "shallow")
FORMATS = ("files", "reftable")  # of references
SHARED = re.compile(r"[0-9a-z]+")


class Repository(Protocol):
    """What has to be known of a repository before git may work on it."""

    @property
    def git_dir(self) -> Path:
        """Where HEAD and the index are."""
        ...

    @property
    def common_dir(self) -> Path:
        """Where objects and refs are; the same but for linked work trees."""
        ...

    @property
    def object_format(self) -> str:
        """Either sha1 or sha256."""
        ...

    @property
    def settings(self) -> Mapping[str, str]:
        """Its configuration as data, by lower-case key."""
        ...


@dataclass(frozen=True, kw_only=True)
class ForeignGit(Git):
    """Git that runs the commands of one table and no other."""

    known: Mapping[str, str]

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return the argument list. Raises WorkFailed for a command that the table has not."""
        if arguments[0] not in self.known:
            raise WorkFailed(
                f"git {arguments[0]} is not among the commands for a repository of others",
                hint="this is a defect of Patchyard; please report it",
            )
        return super().command(arguments)


@contextlib.contextmanager
def stand_in(
    repository: Repository, home: Path, *, is_written: bool = False, synced: str = ""
) -> Iterator[ForeignGit]:
    """Yield a git that works on `repository` under a configuration of ours alone.

    Its folder, `home` of what is yielded, stands in for the repository's common directory: it links
    to refs, objects and logs, and has a `config` of its own. A fetch may name it as a source.

    With `is_written` git works by descriptors of both directories, and under root as the user who
    owns the git directory that was opened: that user could put another one in its place meanwhile.
    `synced` is what git brings to the disk before it goes on (`core.fsync`).
    """
    with contextlib.ExitStack() as stack:
        git_dir, common = repository.git_dir, repository.common_dir
        held: tuple[int, ...] = ()
        owner = None
        if is_written:
            held = tuple(stack.enter_context(opened(place)) for place in (git_dir, common))
            git_dir, common = map(by_descriptor, held)
            owner = _owner(held[0])
        folder = stack.enter_context(_folder(home, is_open=owner is not None))
        _furnish(folder, repository, common)
        has_logs = (folder / "logs").is_dir()
        yield ForeignGit(
            home=folder,
            config=Path(os.devnull),
            git_dir=git_dir,
            extra={"GIT_COMMON_DIR": str(folder), "HOME": "/nonexistent"},
            further={
                "core.logAllRefUpdates": "true" if has_logs else "false",
                **({"core.fsync": synced} if synced else {}),
            },
            owner=owner,
            held=held,
            known=OURS,
        )


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[int]:
    """Hold a folder open, also one whose names cannot be listed. Raises OSError."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _owner(folder: int) -> tuple[int, int] | None:
    """Return whom root has to be to write in a folder; None: itself."""
    status = os.fstat(folder)
    is_foreign = os.geteuid() == 0 and status.st_uid != 0
    return (status.st_uid, status.st_gid) if is_foreign else None


@contextlib.contextmanager
def _folder(home: Path, *, is_open: bool) -> Iterator[Path]:
    """Yield a folder below the home, or one that another user may read."""
    if not is_open:
        with scratch(home, "git") as folder:
            yield folder
        return
    folder = Path(tempfile.mkdtemp(prefix="patchyard-git-"))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _furnish(folder: Path, repository: Repository, common: Path) -> None:
    for name in BORROWED:
        if (common / name).exists():
            (folder / name).symlink_to(common / name)
    (folder / "packed-refs").symlink_to(common / "packed-refs")  # git may be about to make it
    for name, content in (("HEAD", "ref: refs/heads/base\n"), ("config", _config(repository))):
        place = folder / name
        place.write_text(content)
        place.chmod(0o644)


def _config(repository: Repository) -> str:
    """Return a configuration that says how the repository is stored, and nothing else."""
    known = repository.settings
    extensions = ""
    if repository.object_format != "sha1":
        extensions += f"\tobjectFormat = {repository.object_format}\n"
    refs = known.get("extensions.refstorage", FORMATS[0])
    if refs not in FORMATS:
        raise UsageError(
            f"{repository.git_dir} keeps its references in {refs!r}",
            hint=f"take a repository that keeps them in {' or '.join(FORMATS)}",
        )
    if refs != FORMATS[0]:
        extensions += f"\trefStorage = {refs}\n"
    core = f"[core]\n\trepositoryFormatVersion = {1 if extensions else 0}\n"
    shared = known.get("core.sharedrepository", "")
    if SHARED.fullmatch(shared):
        core += f"\tsharedRepository = {shared}\n"
    return core + (f"[extensions]\n{extensions}" if extensions else "")


__all__ = ["ITS_OWN", "OURS", "SERVED", "VIEWED", "ForeignGit", "Repository", "opened", "stand_in"]
