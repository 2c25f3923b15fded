"""A fresh clone for a task, by git of ours that reads nobody's configuration.

Nobody has worked in the folder yet: what the agent could arrange is not there before it has ended.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from patchyard.clients.git import Git, text
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.remote_git import RemoteGit, safe_directories, token_credential
from patchyard.clients.remote_trouble import trouble
from patchyard.clients.scratch import scratch
from patchyard.domain.errors import UsageError
from patchyard.domain.remotes import Remote, remote_of
from patchyard.execution.arguments import TEXT, require

CLONE_TIMEOUT_S = 300.0  # D+: WORKSPACE_PREPARATION_TIMEOUT
MOST_BYTES = 64 * 1024**3  # of one file that a clone writes, such as its pack
LONGEST_BRANCH = 250  # D+: git input rules
BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]*")


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """A task whose workspace is wanted (D+)."""

    id: str
    repo_url: str  # https://, ssh://, user@host:path, file:// or an absolute path
    branch: str = ""  # to begin with; empty: the repository's own
    work_branch: str = ""  # made at that place; empty: none
    depth: int | None = None  # commits of history; None: all
    user_id: str = ""  # for whom; kept nowhere


@dataclass(frozen=True, kw_only=True)
class CloneResult:
    """What was cloned."""

    repo_url: str
    branch: str  # that is checked out
    commit: str


def require_source(task: TaskConfig) -> Remote:
    """Return where to clone from. Raises UsageError for what must not be asked of git."""
    for name in ("repo_url", "branch", "work_branch"):
        require(f"TaskConfig.{name}", getattr(task, name), TEXT)
    require("TaskConfig.depth", task.depth, (int, type(None)))
    url = task.repo_url
    if url.startswith("/"):
        url = f"file://{quote(url, errors='surrogateescape')}"
    return remote_of(url)


def require_branch(name: str) -> None:
    """Raise UsageError for what is no name of a branch (D+)."""
    is_fit = BRANCH.fullmatch(name) and ".." not in name and len(name) <= LONGEST_BRANCH
    if not is_fit or name.endswith(("/", ".", ".lock")) or "//" in name or "/." in name:
        raise UsageError(
            f"{name[:300]!r} is no name of a branch",
            hint=f"take letters, digits and ._/- , {LONGEST_BRANCH} at most, and no `..`",
        )


def require_clonable(task: TaskConfig) -> Remote:
    """Return where to clone from, when all of the task can be asked for. Raises UsageError."""
    for name in (task.branch, task.work_branch):
        if name:
            require_branch(name)
    if task.depth is not None and task.depth < 1:
        raise UsageError(f"depth is {task.depth}", hint="say 1 or more, or leave it out")
    return require_source(task)


def clone(
    task: TaskConfig,
    place: Path,
    *,
    home: Path,
    environ: Mapping[str, str],
    token_env: str = "",
) -> tuple[CloneResult, bool]:
    """Clone into `place`, which is not there yet; return whether the work branch was made too.

    `token_env` names the variable of `environ` that holds a token (D19): it is told to the host of
    the repository alone, and written nowhere.

    Blocking. Raises UsageError, Unavailable, which tells what a server or a disk refused.
    """
    remote = require_clonable(task)
    credential = token_credential(remote, token_env, environ)
    with scratch(home, "clone") as folder:
        config = folder / "gitconfig"
        config.write_bytes(safe_directories(remote.path) if remote.scheme == "file" else b"")
        (folder / "empty").mkdir()
        git = RemoteGit(
            home=folder / "empty",
            config=config,
            remote=remote,
            environ=environ,
            credential=credential,
            most_bytes=MOST_BYTES,
            whole_s=CLONE_TIMEOUT_S,
        )
        depth = [f"--depth={task.depth}"] if task.depth else []
        branch = [f"--branch={task.branch}"] if task.branch else []
        words = ["clone", "--progress", "--no-local", "--template=", *depth, *branch]
        done = git.attempt(*words, "--", remote.source, str(place))
        if done.code != 0:
            cure = _token_cure(token_env)
            raise trouble(remote, done, verb="clone", most_bytes=MOST_BYTES, token_cure=cure)
        own = Git(home=git.home, config=config, git_dir=place / ".git")
        commit = own.attempt("rev-parse", "--verify", "--quiet", "HEAD")
        is_set = not task.work_branch or _begin(own, task.work_branch)
        head = own.attempt("symbolic-ref", "--short", "--quiet", "HEAD")
    branch_now = text(head.out) or task.branch  # a tag was asked for: no branch is checked out
    found = CloneResult(repo_url=task.repo_url, branch=branch_now, commit=text(commit.out))
    return found, is_set


def _token_cure(token_env: str) -> str:
    if token_env:
        return f"look at the address, and whether the token that {token_env} holds may read it"
    return (
        "look at the address; a private one needs a token: prepare_workspace(..., token_env=NAME)"
    )


def _begin(git: Git, branch: str) -> bool:
    """Make a branch where HEAD is and let HEAD be it; the files stay."""
    made = git.attempt("update-ref", f"refs/heads/{branch}", "HEAD", "")
    is_there = git.attempt("show-ref", "--verify", "--quiet", f"refs/heads/{branch}")
    if made.code != 0 and is_there.code != 0:
        return False
    return git.attempt("symbolic-ref", "HEAD", f"refs/heads/{branch}").code == 0


def give_to(place: Path, identity: AgentIdentity) -> None:
    """Let the agent own a tree that nobody else has touched, links themselves included."""
    if not identity.is_switched:
        return
    for _, folders, files, at in os.fwalk(place):
        for name in (*folders, *files):
            os.chown(name, identity.uid, identity.gid, dir_fd=at, follow_symlinks=False)
    os.chown(place, identity.uid, identity.gid)


__all__ = [
    "BRANCH",
    "CLONE_TIMEOUT_S",
    "LONGEST_BRANCH",
    "MOST_BYTES",
    "CloneResult",
    "TaskConfig",
    "clone",
    "give_to",
    "require_branch",
    "require_clonable",
    "require_source",
]
