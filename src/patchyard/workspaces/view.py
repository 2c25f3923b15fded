"""A small git directory of ours that shows the user's index and work tree under our configuration.

Through it git reads the checkout without a setting, filter, hook or lock of the user's.
"""

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.foreign_git import VIEWED, ForeignGit
from patchyard.clients.git import Finished, Git, failure
from patchyard.clients.git_files import MAX_INDEX_BYTES, require_plain
from patchyard.clients.reader import plain_file
from patchyard.clients.scratch import scratch
from patchyard.clients.treewriter import chunks_of
from patchyard.domain.errors import UsageError, WorkFailed
from patchyard.workspaces.indexed import Indexed
from patchyard.workspaces.source import Source
from patchyard.workspaces.store import Store, fields, following, parts

EXCLUDES = "core.excludesfile"
ATTRIBUTES = "core.attributesfile"
WITHOUT_WAIT = os.O_NONBLOCK | os.O_NOCTTY  # a FIFO in a file's place would hold us up
MAX_RULES_BYTES = 4 * 1024 * 1024
DENIED, GONE = "Permission denied", "No such file or directory"
PASSED_OVER = re.compile(r"^(?!warning: |hint: |error: )(.+): [A-Z].*$", re.MULTILINE)
UNOPENED = re.compile(r"^warning: could not open directory '((?s:.+?))/*': (.+)$", re.MULTILINE)
UNREAD = re.compile(rf"^warning: unable to access '(.+)': {DENIED}$", re.MULTILINE)
"""What git says of what it could not look at, before it goes on as if that had not changed."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # a warning has "?" instead of each


@dataclass(frozen=True, kw_only=True)
class View:
    """The view and what was read into it."""

    git: Git  # looks at the view; objects go to the store
    folder: Path
    indexed: Indexed  # what the copy of the index holds
    excludes: bytes  # the user's excludes file, then info/exclude
    attributes: bytes  # the user's attributes file, then info/attributes
    withheld: tuple[str, ...]  # which of the two hold a file that the repository itself chose
    conversions: Mapping[str, str]  # the user's settings that decide on them

    def listed(self) -> bytes:
        """Return the entries of the copy of the index, as `ls-files --stage -z` says them."""
        return _listed(self.git, self.folder)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One differing path, as git's raw format says it."""

    path: str
    old_mode: str
    mode: str
    old_id: str
    new_id: str  # zeros: only the work tree has the content
    status: str


@contextlib.contextmanager
def opened(store: Store) -> Iterator[View]:
    """Copy the user's index and rule files into a view that lasts as long as the context.

    Raises UsageError for an index that cannot be read. The work tree is not looked at yet.
    """
    source = store.source
    with scratch(store.git.home.parent, "view") as folder:
        for name in ("refs", "objects", "info"):
            (folder / name).mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/base\n")
        shutil.copyfile(store.git_dir / "config", folder / "config")
        digest = _copy_index(source, folder)
        excludes = _rules(source, EXCLUDES, "ignore", "exclude")
        attributes = _rules(source, ATTRIBUTES, "attributes", "attributes")
        kinds = (("excludes", EXCLUDES, "exclude"), ("attributes", ATTRIBUTES, "attributes"))
        (folder / "info" / "exclude").write_bytes(excludes)
        (folder / "info" / "attributes").write_bytes(attributes)
        git = ForeignGit(
            home=store.git.home,
            config=store.git.config,
            git_dir=folder,
            work_tree=source.top,
            index=folder / "index",
            extra={"GIT_OBJECT_DIRECTORY": str(store.git_dir / "objects")},
            further=_comparing(source.settings),
            known=VIEWED,
        )
        yield View(
            git=git,
            folder=folder,
            indexed=store.recollection.indexes.of(digest, lambda: _listed(git, folder)),
            excludes=excludes,
            attributes=attributes,
            withheld=tuple(kind for kind, *row in kinds if _is_chosen_by(source, *row)),
            conversions=source.conversions,
        )


def _comparing(settings: Mapping[str, str]) -> dict[str, str]:
    """Return by what git tells that a file changed: by all that it notes, as the user's git does.

    Size and time of change alone miss a file of the same size that was given its old time.
    """
    is_minimal = settings.get("core.checkstat", "").lower() == "minimal"
    trusts = settings.get("core.trustctime", "true").lower() not in {"false", "no", "off", "0"}
    return {
        "core.checkStat": "minimal" if is_minimal else "default",
        "core.trustctime": "true" if trusts else "false",
    }


def _listed(git: Git, folder: Path) -> bytes:
    return git.run("ls-files", "--stage", "-z", cwd=folder)


def _copy_index(source: Source, folder: Path) -> str:
    """Copy it with its time, by which git knows entries that were written in the same second.

    Returns a hash of all that was copied.
    """
    known = hashlib.sha256()
    try:
        _copy(source.git_dir / "index", folder / "index", known.update)
        for shared in sorted(source.git_dir.glob("sharedindex.*")):
            known.update(b"\0" + os.fsencode(shared.name) + b"\0")
            _copy(shared, folder / shared.name, known.update)
    except FileNotFoundError:
        pass
    except PermissionError as error:
        raise UsageError(
            f"{error.filename} cannot be read", hint="give this user the right to read it"
        ) from error
    return known.hexdigest()


def _copy(place: Path, target: Path, take: Callable[[bytes], None]) -> None:
    """Copy a file with its times; `take` is given its size, and its content by pieces.

    Raises UsageError for what is none, or has no end in sight; ChangedMeanwhile where it shrank.
    """
    with open(place, "rb", opener=lambda path, flags: os.open(path, flags | WITHOUT_WAIT)) as file:
        status = os.fstat(file.fileno())
        require_plain(place, status, most=MAX_INDEX_BYTES)
        take(status.st_size.to_bytes(8, "big"))
        with target.open("wb") as made:
            for piece in chunks_of(file.fileno(), status.st_size):  # no more: it may grow
                take(piece)
                made.write(piece)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _rules(source: Source, key: str, default: str, own: str) -> bytes:
    """Return the user's file that `key` names (or git's default place) and the repository's."""
    home = source.settings.get(HOME_KEY, "")
    named = source.settings.get(key)
    if named is None:
        named = f"{source.settings.get(XDG_KEY) or f'{home}/.config'}/git/{default}"
    if named.startswith("~/"):
        named = home + named[1:]
    both = (Path(source.top, named), source.common_dir / "info" / own)
    return b"".join(_read_rules(place) for place in both)


def _is_chosen_by(source: Source, key: str, own: str) -> bool:
    """Whether the repository itself chose a file of rules, which may be any file of the user's.

    By a setting of its own, or by a link in the place of the file that belongs to it.
    """
    place = Path("info", own)
    is_direct = Path(os.path.realpath(source.common_dir / place)) == (
        Path(os.path.realpath(source.common_dir)) / place
    )
    return source.says(key) or not is_direct


HOME_KEY = "patchyard.home"  # put among the settings by whoever reads the environment
XDG_KEY = "patchyard.xdg"


def _read_rules(place: Path) -> bytes:
    try:
        with plain_file(place, follows=True) as (descriptor, status):
            if status.st_size > MAX_RULES_BYTES:
                return b""
            content = b"".join(chunks_of(descriptor, status.st_size))
    except (OSError, WorkFailed):  # not there, no file, or cut short just now
        return b""
    if all(not line.strip() or line.startswith(b"#") for line in content.splitlines()):
        return b""
    return content if content.endswith(b"\n") or not content else content + b"\n"


def differences(output: bytes) -> dict[str, Entry]:
    """Return git's `--raw -z` output (without renames) by path.

    Raises UsageError for an entry without a path, which a damaged index has.
    """
    found: dict[str, Entry] = {}
    said = map(os.fsdecode, fields(output))
    for head in said:
        path = following(said)
        if not path:
            raise UsageError(
                "the index of the checkout is damaged: an entry has no path",
                hint="move .git/index away; `git reset` there makes the index anew",
            )
        old_mode, mode, old_id, new_id, status = head[1:].split(" ")
        if path in found:  # an unmerged path has a second line of another kind
            continue
        found[path] = Entry(
            path=path, old_mode=old_mode, mode=mode, old_id=old_id, new_id=new_id, status=status[0]
        )
    return found


def staged(view: View, commit: str) -> dict[str, Entry]:
    """Return where the index differs from the commit; opens nothing in the work tree."""
    return differences(
        view.git.run(
            "diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev",
            "--ignore-submodules=none", commit, "--", cwd=view.folder,
        )
    )  # fmt: skip


def touched(view: View) -> dict[str, Entry]:
    """Return where the work tree may differ from the index.

    Raises UsageError in a conflict, and for a tracked file that cannot be looked at.
    """
    done = _looked(
        view, "diff-files", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=all",
        cwd=view.folder,
    )  # fmt: skip
    for path in PASSED_OVER.findall(done.err):
        raise unreadable(view, path)
    found = differences(done.out)
    unmerged = sorted(path for path, entry in found.items() if entry.status == "U")
    if unmerged:
        listed = ", ".join(unmerged[:5])
        raise UsageError(
            f"a merge is not finished: {listed}",
            hint="finish it, or `git merge --abort`, or start from the last commit: --base head",
            details={"paths": unmerged},
        )
    return found


def untracked(view: View) -> tuple[list[str], list[str]]:
    """Return files that are neither tracked nor ignored, and what of that kind is not looked into.

    The latter are nested repositories, and folders that are closed to this user. Raises UsageError
    for such a folder with a tracked file, and for rules that are closed: git goes on without them.
    """
    rules = os.fspath(view.folder / "info" / "exclude")
    done = _looked(
        view, "ls-files", "--others", "-z", "--exclude-per-directory=.gitignore",
        f"--exclude-from={rules}", cwd=view.git.work_tree,
    )  # fmt: skip
    files: list[str] = []
    nested: list[str] = []
    for path in parts(done.out):
        (nested if path.endswith("/") else files).append(path.rstrip("/"))
    for path in UNREAD.findall(done.err):
        raise unreadable(view, path)
    closed = UNOPENED.findall(done.err)
    tracked = {_warned_of(folder) for folder in view.indexed.folders} if closed else ()
    for path, why in closed:
        if why == DENIED and path not in tracked:
            nested.append(path)
        elif why != GONE:
            raise unreadable(view, path)
    return files, nested


def _warned_of(path: str) -> str:
    """Return how a path stands in a warning of git's, as `Finished` has it."""
    return CONTROL.sub("?", os.fsencode(path).decode("utf-8", "replace"))


def _looked(view: View, *arguments: str, cwd: Path | None) -> Finished:
    """Return what git found and said. Raises WorkFailed with its words where it failed."""
    done = view.git.attempt(*arguments, cwd=cwd)
    if done.code != 0:
        raise failure(arguments, done.code, done.err)
    return done


def unreadable(view: View, path: str) -> UsageError:
    """Return the error of a file or folder of the work tree that is closed to this user."""
    return UsageError(
        f"{Path(view.git.work_tree or '', path)} cannot be read",
        hint="give this user the right to read it, add it to .gitignore, or use --base head",
        details={"path": path},
    )


__all__ = [
    "HOME_KEY",
    "XDG_KEY",
    "Entry",
    "View",
    "differences",
    "opened",
    "staged",
    "touched",
    "unreadable",
    "untracked",
]
