"""Proof that an armed checkout is live: plain git, used as a person would, runs what it names."""

import contextlib
import os
import pty
import subprocess
from collections.abc import Mapping, Sequence

from armed_checkouts import LAZY, TEMPLATE, Armed
from armed_settings import HOME_ONLY, HOOK, MARKS

__all__ = ["expected", "fired"]

CONTROLS: Sequence[Sequence[str]] = (
    *(["trap"], ["rev-list", "--alternate-refs"], ["status"], ["ls-remote", "ext"]),
    *(["ls-remote", "git://127.0.0.1:1/x"], ["ls-remote", "ssh://127.0.0.1:1/x"]),
    *(["ls-remote", "trap:x"], ["ls-remote", "served"], ["push", "served", "HEAD:refs/heads/q"]),
    *(["diff", "HEAD", "--", "armed/edited"], ["diff", "HEAD", "--", "armed/plain"]),
    ["cat-file", "--textconv", "HEAD:armed/some.t"],
    *(["archive", "--format=tar", "HEAD", "armed"], ["hash-object", "--path=armed/y.y", "--stdin"]),
    ["hash-object", "--path=armed/l.lfs", "--stdin"],
    *(["merge-tree", "--write-tree", "left", "right"], ["archive", "--format=trap", "HEAD"]),
    ["interpret-trailers", "--trailer", "trap=x", "--trailer", "other=x"],
    *(["config", "--edit"], ["log", "-1"], ["show", "-s"]),
    *(["add", "-p", "--", "b.crlf"], ["submodule", "update", "--force", "vendor/nested"]),
    *(["commit", "-S", "--allow-empty", "-m", "signed"], ["rebase", "--autostash", "-i", "HEAD~1"]),
    ["-c", "gpg.format=ssh", "commit", "-S", "--allow-empty", "-m", "x"],
    ["-c", "gpg.format=ssh", "-c", "user.signingKey=k", "commit", "-S", "--allow-empty", "-m", "x"],
    ["-c", "gpg.format=x509", "commit", "-S", "--allow-empty", "-m", "x"],
    *(["commit", "--allow-empty", "-m", "x"], ["checkout", "-q", "-b", "other"]),
    *(["credential", "fill"], ["-c", "credential.helper=", "credential", "fill"]),
    *(["push", "file://{repo}", "HEAD:refs/heads/pushed"], ["clone", "file://{repo}", "{clone}"]),
    ["push", "file://{repo}", "HEAD:refs/for/x"],
    ["-c", "core.hooksPath=.git/hooks", "clone", "file://{repo}", "{clone}2"],
    *(["update-index", "--add", "--cacheinfo", "100644,{lost},racy"], ["cat-file", "-e", "{lost}"]),
    ["format-patch", "-q", "-1", "-o", "{clone}3", "left"],
    ["worktree", "add", "-q", "-f", "-b", "apart", "{linked}", "main~1"],
    ["-C", "{linked}", "am", "{clone}3/0001-left.patch"],
    ["-C", "{linked}", "commit", "--amend", "-m", "amended"],
    ["-C", "{linked}", "merge", "-m", "merged", "left"],
    ["-C", "{linked}", "rebase", "main"],
    ["-C", "{linked}", "push", "-f", "file://{repo}", "HEAD:refs/heads/other"],
    # By which git-p4 and git-send-email, which need a server each, run theirs.
    *(["hook", "run", name] for name in HOOK if name.startswith(("p4-", "sendemail-"))),
    ["-c", "gc.auto=1", "gc", "--auto", "-q"],
)
BRIEF: Sequence[Sequence[str]] = (
    *(["status"], ["cat-file", "-e", "{lost}"]),
    ["-c", "core.hooksPath=.git/hooks", "clone", "file://{repo}", "{clone}"],
)
CALM = ("commit.gpgSign=false", "gc.auto=0", "safe.directory=*")
ON_SCREEN = {"add", "log", "show"}  # a pager and colours want a terminal
ROLES = ("AUTHOR", "COMMITTER")

BASIC = frozenset({"clean", "nested"})
WATCHED = {"included": HOOK["fsmonitor-watchman"]}  # which git runs where core.fsmonitor names it
OWN = {"partial": {LAZY}, "at home": {HOME_ONLY, TEMPLATE}}
UNKNOWN = {  # to the git of Debian 12, of what the product's table names
    "gc.recentobjectshook",  # since 2.42
    "hook.trap.command",  # since 2.54
}
NOT_LIVE: Mapping[str, set[str]] = {
    "per work tree": {"alias", "pager-of-show"}  # looked for before git knows the work tree
}


def expected(shape: str, *, thoroughly: bool) -> set[str]:
    """Return the marks that plain git leaves in such a checkout."""
    watching = WATCHED.get(shape, "fsmonitor")
    every = {*MARKS, *HOOK.values(), *BASIC} - UNKNOWN - NOT_LIVE.get(shape, set())
    every -= {HOME_ONLY, "fsmonitor", HOOK["fsmonitor-watchman"]}
    return (every if thoroughly else {*BASIC}) | OWN.get(shape, set()) | {watching}


def fired(armed: Armed, *, thoroughly: bool) -> set[str]:
    """Use plain git in the checkout, which is spoilt by it, and return the marks that were left."""
    environ = {
        **{f"GIT_{role}_{part}": "a@b" for role in ROLES for part in ("NAME", "EMAIL")},
        "PATH": os.environ["PATH"],
        "HOME": str(armed.home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "TERM": "xterm",
    }
    master, screen = pty.openpty()
    calm = [part for setting in CALM for part in ("-c", setting)]
    for words in CONTROLS if thoroughly else BRIEF:
        subprocess.run(
            ["git", *calm, *map(armed.filled, words)],
            cwd=armed.repo,
            env=environ,
            check=False,
            input=b"protocol=https\nhost=x.invalid\n\n",
            stdout=screen if words[0] in ON_SCREEN else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )
    for end in (master, screen):
        with contextlib.suppress(OSError):
            os.close(end)
    return armed.ran
