"""Clones of repositories by address: one a URL below the home, fetched each time it is asked for.

What lies there is a stranger's work in a checkout of ours: git writes it under our configuration,
runs nothing of it, and its own edits by a user stay. Killed at any moment it is found again. Knows
no plan.
"""

import contextlib
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.git import Finished, Git, text
from patchyard.clients.process import kill_tree
from patchyard.clients.refused_names import refused_name, require_name
from patchyard.clients.remote_git import Credential, RemoteGit, credential_for, safe_directories
from patchyard.clients.remote_trouble import NO_HEAD, trouble
from patchyard.clients.removal import remove_tree
from patchyard.clients.scratch import scratch
from patchyard.clients.shelves import Shelf
from patchyard.domain.errors import Conflict, PatchyardError, Unavailable, UsageError, WorkFailed
from patchyard.domain.remotes import Remote, remote_of

FOLDER = "clones"  # in the home
KEY_CHARS = 16
BRANCHES, TAGS = "refs/remotes/origin", "refs/tags"
HEAD = "refs/patchyard/head"  # what the server's HEAD is
ASKED = "refs/patchyard/asked"  # further references and commits that were asked for by name
REFSPECS = (f"+refs/heads/*:{BRANCHES}/*", f"+{TAGS}/*:{TAGS}/*")
FETCH = (
    *("fetch", "--progress", "--prune", "--no-tags", "--no-write-fetch-head", "--update-shallow"),
    *("--no-recurse-submodules", "--no-show-forced-updates"),
)
LOCKS = ("HEAD.lock", "index.lock", "shallow.lock", "config.lock", "packed-refs.lock")
HALF = ("pack/tmp_*", "pack/.tmp-*", "??/tmp_obj_*", "tmp_obj_*", "tmp_objdir-*")
PACKS, CHANGING = "packs", "changing"  # beside the checkout: see `_is_whole` and `_check_out`
MOST_PACKS = 50  # before they are made one
MOST_ENTRIES = 5_000_000  # of one tree: a few objects can name any number
CHECKOUT_S = 1800.0
ENDING_S = 10.0
FULL = re.compile(r"refs/[^\s:*?\[\\^~]+")  # a reference that is of no branch and no tag
OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Brought:
    """A clone that holds what its server has now."""

    top: Path  # of its checkout
    commit: str  # that was asked for
    remote: Remote
    is_new: bool  # it was not there before
    left: str = ""  # why the checkout does not lie at that commit; empty: it does


class Clones:
    """The clones of one home. Blocking: callers run it in a worker thread."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._home = home
        self._environ = environ
        self._folder = home / FOLDER
        self._shelf = Shelf(self._folder, str(home))

    def place_of(self, url: str) -> Path:
        """Return where the checkout of a repository lies, or would. Raises UsageError."""
        remote = remote_of(url)
        return self._folder / _key(remote) / remote.name

    def url_of(self, top: Path) -> str:
        """Return the address that a checkout is a clone of, empty for one that is none of ours."""
        if not is_clone(self._home, top):
            return ""
        with self._local(top) as git:
            return text(git.attempt("config", "--local", "--get", "remote.origin.url").out)

    def bring(
        self, url: str, ref: str | None = None, *, rules: Sequence[str] = (), most_bytes: int
    ) -> Brought:
        """Clone, or fetch into the clone that is there, and check `ref` out.

        `ref` is a branch or tag of the server, a commit, or anything that `git rev-parse` takes;
        None: what its HEAD is. `rules` say which credential goes where; see `credential_for`.
        A clone that lost objects gets all of them again. Raises UsageError, Unavailable where the
        server cannot be asked (the clone stays as it is), Conflict while another process is at it
        for long.
        """
        remote = remote_of(url)
        credential = credential_for(remote, rules, self._environ)
        key = _key(remote)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return self._brought(remote, ref, credential, most_bytes)
        except BaseException:
            if not (self._folder / key).exists():
                self._shelf.give_back(key, unused_since=math.inf)  # the marks beside it
            raise

    def _brought(
        self, remote: Remote, ref: str | None, credential: Credential | None, most_bytes: int
    ) -> Brought:
        key = _key(remote)
        mark = f"PATCHYARD_CLONE={self._folder / key}"
        with self._shelf.using(key) as folder, scratch(self._home, "clone") as own:
            if not kill_tree(None, marker=mark, timeout_s=ENDING_S):
                raise Conflict(f"what a killed process left works on {folder}", hint="wait for it")
            (own / "empty").mkdir()
            config = own / "gitconfig"
            config.write_bytes(safe_directories(remote.path) if remote.scheme == "file" else b"")
            git = RemoteGit(
                home=own / "empty",
                config=config,
                remote=remote,
                environ=self._environ,
                credential=credential,
                most_bytes=most_bytes,
                mark=mark,
            )
            return _Work(git, folder).bring(ref)

    @contextlib.contextmanager
    def _local(self, top: Path) -> Iterator[Git]:
        with scratch(self._home, "clone") as own:
            (own / "gitconfig").touch()
            yield Git(home=own, config=own / "gitconfig", git_dir=top / ".git")


class _Work:
    """What is done in one clone while its lock is held."""

    def __init__(self, remote_git: RemoteGit, folder: Path) -> None:
        self._asking = remote_git
        self._remote = remote_git.remote
        self._folder = folder
        self._enter(folder)

    def _enter(self, folder: Path) -> None:
        self._at = folder
        self._top = folder / self._remote.name
        self._git_dir = self._top / ".git"
        home, config = self._asking.home, self._asking.config
        mark = dict([self._asking.mark.split("=", 1)])
        self._git = Git(
            home=home, config=config, git_dir=self._git_dir, work_tree=self._top, extra=mark
        )

    def bring(self, ref: str | None) -> Brought:
        """Bring the clone up to date and check `ref` out."""
        new = self._folder.with_name(f".{self._folder.name}.new")  # the janitor knows such names
        remove_tree(new)
        is_new = not (self._git_dir / "HEAD").is_file()
        if is_new:
            remove_tree(self._folder)
            self._enter(new)
            try:
                commit = self._filled(ref)
            except BaseException:
                remove_tree(new)
                raise
            new.rename(self._folder)
            self._enter(self._folder)
        else:
            self._tidy()
            commit = self._fetched(ref)
        left = self._check_out(commit)
        return Brought(top=self._top, commit=commit, remote=self._remote, is_new=is_new, left=left)

    def _filled(self, ref: str | None) -> str:
        """Make the clone and return the commit that `ref` is."""
        head = self._head()
        self._top.mkdir(parents=True, mode=0o700)
        long = f"--object-format={'sha256' if len(head) == 64 else 'sha1'}"
        plain = Git(home=self._git.home, config=self._git.config)
        words = ("init", "--quiet", "--template=", "--initial-branch=main", long)
        plain.run(*words, "--", str(self._top))
        self._git.run("config", "remote.origin.url", self._remote.url)
        self._git.run("config", "remote.origin.fetch", REFSPECS[0])
        self._fetch(*REFSPECS, *([f"+HEAD:{HEAD}"] if head else []))
        commit = self._require(ref)
        self._require_checkable(commit)
        return commit

    def _fetched(self, ref: str | None) -> str:
        """Fetch what is new and return the commit that `ref` is; mend what was lost."""
        head = self._head()
        specs = (*REFSPECS, *([f"+HEAD:{HEAD}"] if head else []))
        if not head:
            self._git.attempt("update-ref", "-d", HEAD)
        if self._is_whole():
            with contextlib.suppress(WorkFailed):  # an object is lost that is needed here
                self._fetch(*specs)
                return self._checked(ref)
        self._fetch(*specs, is_again=True)
        return self._checked(ref)

    def _checked(self, ref: str | None) -> str:
        commit = self._require(ref)
        self._require_checkable(commit)
        return commit

    def _head(self) -> str:
        """Return what the server's HEAD is, empty where it has none. Raises as `bring`."""
        done = self._asking.attempt("ls-remote", "--", self._remote.source, "HEAD")
        if done.code != 0:
            raise self._trouble(done, "ls-remote")
        rows = (line.split("\t") for line in done.out.decode("ascii", "replace").splitlines())
        return next((row[0] for row in rows if row[1:] == ["HEAD"]), "")

    def _fetch(self, *specs: str, is_again: bool = False) -> None:
        words = (*FETCH, *(["--refetch"] if is_again else []))
        asking = self._asking.at(self._git_dir)
        done = asking.attempt(*words, "--", self._remote.source, *specs, cwd=self._top)
        if done.code != 0 and NO_HEAD.search(done.err):  # deleted since it was asked for
            specs = tuple(each for each in specs if not each.endswith(HEAD))
            done = asking.attempt(*words, "--", self._remote.source, *specs, cwd=self._top)
        if done.code != 0:
            raise self._trouble(done, "fetch")
        packs = self._packs()
        if len(packs) > 2 * MOST_PACKS:
            self._git.attempt("repack", "-a", "-d", "-k", "--quiet", timeout_s=CHECKOUT_S)
            packs = self._packs()
        (self._at / PACKS).write_text(json.dumps(packs), encoding="utf-8")

    def _trouble(self, done: Finished, verb: str) -> PatchyardError:
        kept = str(self._folder / self._remote.name) if self._git_dir.is_dir() else ""
        return trouble(
            self._remote,
            done,
            verb=verb,
            most_bytes=self._asking.most_bytes,
            kept=kept if self._at == self._folder else "",
        )

    def _packs(self) -> dict[str, int]:
        found = (self._git_dir / "objects/pack").glob("pack-*.*")
        kinds = {".idx", ".pack"}
        return {each.name: each.stat().st_size for each in found if each.suffix in kinds}

    def _is_whole(self) -> bool:
        """Whether the packs are there that the last fetch left; what one lacks no fetch brings."""
        try:
            known = json.loads((self._at / PACKS).read_bytes())
        except (OSError, ValueError, RecursionError):  # the fetch before was killed: all is new
            return False
        now = self._packs()
        return all(now.get(name) == size for name, size in known.items())

    def _tidy(self) -> None:
        """Delete what a git that was killed has left: locks, and contents half received."""
        refs = self._git_dir / "refs"
        ours = (refs / "remotes", refs / "tags", refs / "patchyard")
        left = [each for folder in ours for each in folder.rglob("*.lock")]
        left += [self._git_dir / name for name in LOCKS]
        left += [each for shape in HALF for each in (self._git_dir / "objects").glob(shape)]
        for each in left:
            remove_tree(each)

    def _require(self, ref: str | None) -> str:
        """Return the commit that `ref` means, fetched by its name where no branch has it."""
        if ref is None or ref.upper() == "HEAD":
            commit = self._commit(HEAD)
            if not commit:
                raise UsageError(
                    f"the repository at {self._remote.url} has no commit yet, or its HEAD is a"
                    " branch that is not there",
                    hint="name a branch with --ref",
                )
            return commit
        short = ref.removeprefix("refs/heads/").removeprefix("origin/")
        for name in (f"{BRANCHES}/{short}", f"{TAGS}/{ref}", ref):
            if commit := self._commit(name):
                return commit
        if OBJECT_ID.fullmatch(ref) or FULL.fullmatch(ref):
            into = f"{ASKED}/{hashlib.sha256(ref.encode()).hexdigest()[:KEY_CHARS]}"
            with contextlib.suppress(Unavailable, WorkFailed):
                self._fetch(f"+{ref}:{into}")
            if commit := self._commit(into):
                return commit
        raise UsageError(
            f"{self._remote.url} has no branch, tag or commit {ref[:200]!r}",
            hint=f"git ls-remote {self._remote.url} lists its branches and tags",
        )

    def _commit(self, name: str) -> str:
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        done = self._git.attempt(*words)
        return text(done.out) if done.code == 0 else ""

    def _require_checkable(self, commit: str) -> None:
        """Look over a commit's tree before any file is made.

        Raises UsageError for what git writes into no checkout, Unavailable where it is larger than
        there is room for, WorkFailed where an object of it is lost.
        """
        size = entries = 0
        rest = b""
        for piece in self._git.streamed("ls-tree", "-r", "-z", "-l", "--full-tree", commit):
            *lines, rest = (rest + piece).split(b"\0")
            for line in lines:
                facts, _, path = line.partition(b"\t")
                count = facts.split()[-1]
                if count == b"BAD":
                    raise WorkFailed(f"{commit} lacks a file's content")
                size += int(count) if count.isdigit() else 0
                require_name(path, mode=facts[:6], commit=commit, where=self._remote.url)
            entries += len(lines)
            if size > self._asking.most_bytes or entries > MOST_ENTRIES:
                raise Unavailable(
                    f"{commit} of {self._remote.url} is larger than there is room for:"
                    f" {entries:,} files, {size:,} bytes and more",
                    hint="free some room on the disk of the home, or name another --ref",
                )

    def _check_out(self, commit: str) -> str:
        """Let the checkout be that commit; return why it stays as it is, empty when it does not.

        Nothing of a user's is overwritten. A checkout that was killed in between is finished.
        """
        mark = self._at / CHANGING
        force: tuple[str, ...]
        if not mark.exists():
            status = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
            is_there = self._git.attempt("rev-parse", "--verify", "--quiet", "HEAD").code == 0
            if is_there and self._git.attempt(*status, timeout_s=CHECKOUT_S).out.strip():
                return "it holds changes of its own"
            mark.touch()
            force = ()
        else:
            force = ("--force",)
        words = ("checkout", "--quiet", *force, "--detach", commit)
        done = self._git.attempt(*words, cwd=self._top, timeout_s=CHECKOUT_S)
        if done.code == 0:
            mark.unlink()
            return ""
        if "invalid path" in done.err:
            path = done.err.partition("invalid path '")[2].partition("'")[0]
            where = self._remote.url
            raise refused_name(path, "an invalid path", commit=commit, where=where)
        if "would be overwritten" in done.err:
            mark.unlink()
            return "files lie in it that git does not know"
        raise self._trouble(done, "checkout")


def is_clone(home: Path, top: Path) -> bool:
    """Whether the checkout at `top` is a clone of the home's, where no user works."""
    return top.parent.parent == home / FOLDER and (top / ".git").is_dir()


def _key(remote: Remote) -> str:
    said = remote.url.rstrip("/").removesuffix(".git")
    return hashlib.sha256(said.encode("utf-8", "surrogateescape")).hexdigest()[:KEY_CHARS]


__all__ = ["FOLDER", "Brought", "Clones", "is_clone"]
