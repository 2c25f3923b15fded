"""What is known of the user's repository, read once and only as data; nothing is written there."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.foreign_git import ITS_OWN, ForeignGit
from patchyard.clients.git import text
from patchyard.clients.git_folders import require_named
from patchyard.clients.glimpse import no_commit_yet
from patchyard.domain.errors import UsageError
from patchyard.domain.git_settings import GitSetting
from patchyard.domain.retention import store_key

FACTS = (
    "rev-parse",
    "--is-bare-repository",
    "--absolute-git-dir",
    "--is-shallow-repository",
    "--show-object-format",
    "--show-toplevel",
    "--git-common-dir",
)
CONVERSIONS = ("core.autocrlf", "core.eol")
#: What git says of a repository with an extension, or a version, that it does not know (setup.c).
OF_NEWER_FORMAT = re.compile(r"unknown repository extension|Expected git repo version")


@dataclass(frozen=True, kw_only=True)
class Source:
    """The user's checkout: where its parts lie and what its configuration says."""

    top: Path  # top level of the work tree
    git_dir: Path
    common_dir: Path  # differs from git_dir in a linked worktree
    is_shallow: bool
    object_format: str  # sha1 or sha256
    settings: Mapping[str, str]  # lower-case keys, the last value wins
    git_settings: tuple[GitSetting, ...] = ()  # all of them, in git's order

    @property
    def key(self) -> str:
        """Name of our folder for this repository."""
        return store_key(os.fsdecode(self.top))

    @property
    def conversions(self) -> dict[str, str]:
        """The user's settings that decide on conversions."""
        return {key: self.settings[key] for key in CONVERSIONS if key in self.settings}

    def says(self, key: str) -> bool:
        """Whether the setting that counts is the repository's own, no setting of the user's."""
        said = [each.is_of_repository for each in self.git_settings if each.key == key]
        return bool(said) and said[-1]

    @property
    def has_modes(self) -> bool:
        """Whether the user's git trusts the executable bit of this file system."""
        return self.settings.get("core.filemode", "true") != "false"

    @property
    def folds_case(self) -> bool:
        """Whether two names that differ only in case are one here."""
        try:
            return (self.top / ".git").samefile(self.top / ".GIT")
        except OSError:
            return False

    @property
    def author(self) -> str:
        """`Name <mail>`, empty when the user has none configured."""
        name, mail = self.settings.get("user.name", ""), self.settings.get("user.email", "")
        return f"{name} <{mail}>" if name and mail else ""


def top_of(place: Path) -> Path:
    """Return the top level of the checkout around `place`. Raises UsageError naming the cure."""
    start = Path(os.path.realpath(place))
    try:
        if not start.is_dir():
            raise UsageError(f"there is no folder {place}", hint="name a folder inside a checkout")
        for folder in (start, *start.parents):
            if (folder / ".git").exists():
                return folder
            if _is_bare(folder):
                raise UsageError(
                    f"{folder} is a bare repository",
                    hint=f"clone it first: git clone {folder} WORKDIR",
                )
    except PermissionError as error:
        raise UsageError(
            f"{error.filename} cannot be read", hint="give this user the right to read it"
        ) from error
    raise UsageError(
        f"{place} is not in a git repository",
        hint=f"git init {place} && git add -A && git commit, or name another folder",
    )


def _is_bare(folder: Path) -> bool:
    return (
        (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()
    )


def unreadable(top: Path, said: str) -> UsageError:
    """Return the error of a checkout that git cannot read, with what git said."""
    newer = "it is of a format that this git (`git --version`) does not know: a newer git reads it"
    return UsageError(
        f"{top} is not a repository git can read: {said.strip()}",
        hint=newer if OF_NEWER_FORMAT.search(said) else "git fsck there says more",
        details={"stderr": said},
    )


def find(git: ForeignGit, top: Path, environ: Mapping[str, str]) -> Source:
    """Read what git says of the checkout at `top`. Raises UsageError when it cannot be read."""
    done = git.attempt(*FACTS, cwd=top)
    said = text(done.out).split("\n")
    if done.code == 0 and len(said) != len(FACTS) - 1:
        raise UsageError(
            f"the path {str(top)!r}, or that of its git directory, holds a line break",
            hint="rename that folder, or clone it into one whose path has none",
        )
    if done.code != 0:
        raise unreadable(top, done.err)
    bare, git_dir, shallow, object_format, said_top, common = said
    if bare == "true" or Path(said_top) != top:
        raise UsageError(
            f"{top} has its work tree elsewhere ({said_top or 'none'})",
            hint="unset core.worktree and core.bare there, or name that folder",
        )
    git_settings = _settings(git, top, environ)
    return Source(
        top=top,
        git_dir=Path(git_dir),
        common_dir=Path(os.path.normpath(top / common)),
        is_shallow=shallow == "true",
        object_format=object_format,
        settings={each.key: each.value for each in git_settings},
        git_settings=git_settings,
    )


def _settings(git: ForeignGit, top: Path, environ: Mapping[str, str]) -> tuple[GitSetting, ...]:
    own = {
        key: value
        for key, value in environ.items()
        if key in {"HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"}
    }
    own["GIT_CONFIG_NOSYSTEM"] = environ.get("GIT_CONFIG_NOSYSTEM", "0")
    own.setdefault("GIT_CONFIG_GLOBAL", "")
    reader = UserGit(
        home=git.home, config=git.config, extra=own, further=git.further, known=ITS_OWN
    )
    done = reader.attempt("config", "-z", "--show-scope", "--show-origin", "--list", cwd=top)
    if done.code != 0:
        raise UsageError(
            f"the git configuration of {top} cannot be read: {done.err.strip()}",
            hint="git config --list there shows the line",
        )
    fields = iter(done.out.split(b"\0")[:-1])
    rows = zip(fields, fields, fields, strict=True)
    return tuple(_setting(top, *row) for row in rows)


def _setting(top: Path, scope: bytes, origin: bytes, pair: bytes) -> GitSetting:
    key, _, value = pair.partition(b"\n")
    kind, _, file = os.fsdecode(origin).partition(":")
    return GitSetting(
        key=os.fsdecode(key),
        value=os.fsdecode(value),
        file=os.fspath(top / file) if kind == "file" else "",
        is_of_repository=scope in {b"local", b"worktree"},
    )


class UserGit(ForeignGit):
    """Git with the user's own configuration in sight: for `git config --list` alone."""

    def environment(self) -> dict[str, str]:
        """Return our environment with the user's configuration files let in."""
        made = super().environment()
        if not made["GIT_CONFIG_GLOBAL"]:
            del made["GIT_CONFIG_GLOBAL"]
        return made

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return the arguments without our settings, which are not the user's."""
        super().command(arguments)
        own = [part for key, value in self.further.items() for part in ("-c", f"{key}={value}")]
        return ["git", *own, *arguments]


def head_of(git: ForeignGit, source: Source, ref: str | None) -> tuple[str, str | None]:
    """Return the commit and branch name that `ref` (None or "head": HEAD) means."""
    wanted = "HEAD" if ref is None or ref.lower() == "head" else ref
    require_named(source.git_dir, source.common_dir, wanted)
    done = git.attempt(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{wanted}^{{commit}}",
        cwd=source.top,
    )  # fmt: skip
    if done.code != 0:
        raise _no_commit(git, source, wanted)
    commit = text(done.out)
    name = git.attempt("rev-parse", "--symbolic-full-name", "--verify", "--quiet",
                       "--end-of-options", wanted, cwd=source.top)  # fmt: skip
    full = text(name.out)
    short = full.removeprefix("refs/heads/") if full.startswith("refs/heads/") else None
    return commit, short


def _no_commit(git: ForeignGit, source: Source, wanted: str) -> UsageError:
    named = git.attempt("rev-parse", "--verify", "--quiet", "--end-of-options", wanted,
                        cwd=source.top)  # fmt: skip
    if named.code == 0:
        return UsageError(
            f"{source.top}: {wanted} names {text(named.out)}, which is no commit that can be read",
            hint="git fsck there shows what is missing",
        )
    if wanted == "HEAD":
        return no_commit_yet(source.top)
    return UsageError(
        f"{source.top} has no commit {wanted!r}",
        hint=f"git -C {source.top} branch --all lists the branches",
    )


__all__ = ["OF_NEWER_FORMAT", "Source", "UserGit", "find", "head_of", "top_of", "unreadable"]
