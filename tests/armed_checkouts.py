"""Checkouts in which everything is armed that git can be made to run, and proof that it is live.

Each vector leaves a mark of its own name when its program runs. A shape says where the settings and
attributes stand and what kind of checkout it is; `fired` uses plain git as a person would.
"""

import contextlib
import os
import pty
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from laboratory import git

__all__ = ["SHAPES", "Armed", "arm", "expected", "fired"]

FUTURE = 2**31 - 1000  # a file of that time is newer than each index that names it
HOOKS = (
    *("commit-msg", "post-checkout", "post-commit", "post-index-change", "post-receive"),
    *("post-update", "pre-commit", "pre-push", "pre-receive", "prepare-commit-msg"),
    *("reference-transaction", "update"),
)
SETTINGS: Mapping[str, str] = {  # {NAME} is the program that leaves the mark NAME
    "alias.trap": "!{alias}",
    "core.alternateRefsCommand": "{alternate-refs}",
    "core.askPass": "{ask-pass}",
    "core.editor": "{editor}",
    "core.fsmonitor": "{fsmonitor}",
    "core.gitProxy": "{git-proxy}",
    "core.pager": "{pager}",
    "core.sshCommand": "{ssh-command}",
    "credential.helper": "!{credential-helper}",
    "diff.external": "{diff-external}",
    "diff.x.command": "{diff-command}",
    "diff.y.textconv": "{textconv}",
    "filter.lfs.clean": "{lfs-clean}",
    "filter.lfs.smudge": "{lfs-smudge}",
    "filter.x.clean": "{clean}",
    "filter.x.smudge": "{smudge}",
    "filter.y.process": "{process}",
    "gpg.program": "{gpg}",
    "merge.x.driver": "{merge-driver} %A",
    "remote.ext.url": "ext::{ext}",
    "remote.served.receivepack": "{receive-pack}",
    "remote.served.uploadpack": "{upload-pack}",
    "remote.served.url": "file://{repo}",
    "sequence.editor": "{sequence-editor}",
    "tar.trap.command": "{archive}",
    "trailer.trap.command": "{trailer}",
    "url.ext::{instead-of} .insteadOf": "trap:",
}
PLAIN: Mapping[str, str] = {  # what makes them count
    "core.checkStat": "minimal",  # as the user of a copy out of an archive has it
    "core.trustctime": "false",
    "protocol.allow": "always",
    "protocol.ext.allow": "always",
    "submodule.recurse": "false",
}
ATTRIBUTES = (
    "armed/** filter=x diff=x merge=x\narmed/*.y filter=y\narmed/*.lfs filter=lfs\n"
    "armed/plain filter=x !diff\narmed/*.t !filter diff=y\n*.crlf text eol=crlf\n"
)
ORIGIN = "https://example.invalid/armed.git"
NESTED = "vendor/nested"
LAZY = "lazy-fetch"
LOST = "lost.txt"
SCRIPTS = {
    **dict.fromkeys(("clean", "lfs-clean", "lfs-smudge", "smudge"), "cat"),
    "process": "printf '0016git-filter-server\\n000eversion=2\\n00000000'\nexec cat > /dev/null",
}
HOME_ONLY = "pack-objects-hook"
MARKS = frozenset(
    part.strip("{}!")
    for value in (*SETTINGS.values(), *SETTINGS)
    for part in value.replace("::", " ").split()
    if part.startswith(("{", "!{")) and part != "{repo}"
) - {"repo"}
CONTROLS: Sequence[Sequence[str]] = (
    *(["trap"], ["rev-list", "--alternate-refs"], ["status"], ["ls-remote", "ext"]),
    *(["ls-remote", "git://127.0.0.1:1/x"], ["ls-remote", "ssh://127.0.0.1:1/x"]),
    *(["ls-remote", "trap:x"], ["ls-remote", "served"], ["push", "served", "HEAD:refs/heads/q"]),
    *(["diff", "HEAD", "--", "armed/edited"], ["diff", "HEAD", "--", "armed/plain"]),
    ["cat-file", "--textconv", "HEAD:armed/some.t"],
    *(["archive", "--format=tar", "HEAD", "armed"], ["hash-object", "--path=armed/y.y", "--stdin"]),
    ["hash-object", "--path=armed/l.lfs", "--stdin"],
    *(["merge-tree", "--write-tree", "left", "right"], ["archive", "--format=trap", "HEAD"]),
    *(["interpret-trailers", "--trailer", "trap=x"], ["config", "--edit"], ["log", "-1"]),
    *(["commit", "-S", "--allow-empty", "-m", "signed"], ["rebase", "--autostash", "-i", "HEAD~1"]),
    *(["commit", "--no-gpg-sign", "--allow-empty", "-m", "x"], ["checkout", "-q", "-b", "other"]),
    *(["credential", "fill"], ["-c", "credential.helper=", "credential", "fill"]),
    *(["push", "file://{repo}", "HEAD:refs/heads/pushed"], ["clone", "file://{repo}", "{clone}"]),
    *(["update-index", "--add", "--cacheinfo", "100644,{lost},racy"], ["cat-file", "-e", "{lost}"]),
)
BRIEF: Sequence[Sequence[str]] = (
    *(["status"], ["cat-file", "-e", "{lost}"], ["clone", "file://{repo}", "{clone}"]),
)
ROLES = ("AUTHOR", "COMMITTER")


@dataclass(frozen=True, kw_only=True)
class Armed:
    """One armed checkout and what lies around it."""

    folder: Path  # of all this, open to every user
    shape: str

    @property
    def repo(self) -> Path:
        """The checkout."""
        return self.folder / "repo"

    @property
    def git_dir(self) -> Path:
        """Its git directory."""
        return self.repo / ".git"

    @property
    def home(self) -> Path:
        """The home of its user."""
        return self.folder / "home"

    @property
    def marks(self) -> Path:
        """Where programs leave their marks."""
        return self.folder / "canary"

    @property
    def ran(self) -> set[str]:
        """The names of those that ran."""
        return {place.name for place in self.marks.iterdir()}

    @property
    def lost(self) -> str:
        """The blob that a partial clone has not."""
        return git(self.folder, "hash-object", "--stdin", stdin=f"{LOST}\n".encode()).strip()

    def program(self, name: str, *, script: str = "exit 1") -> Path:
        """Write a program that leaves its mark."""
        place = self.folder / "programs" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/sh\n: > '{self.marks}/{name}'\n{script}\n")
        place.chmod(0o755)
        return place

    def filled(self, text: str) -> str:
        """Return a text with the programs' places in it."""
        for name in sorted(MARKS, key=len, reverse=True):
            text = text.replace(f"{{{name}}}", str(self.folder / "programs" / name))
        known = {"clone": self.folder / "clone", "lost": self.lost, "repo": self.repo}
        for name, value in known.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text


def _committed(armed: Armed) -> None:
    """Make the checkout as it is before anything is armed: every kind of file there may be."""
    repo = armed.repo
    git(repo, "init", "-q", "-b", "main")
    for name in ("some.y", "some.lfs", "some.t", "plain", "edited", "merged", "future"):
        place = repo / "armed" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"{name}\n")
    (repo / "a.txt").write_text("one\n")
    (repo / "b.crlf").write_text("one\n")
    (repo / LOST).write_text(f"{LOST}\n")
    (repo / ".patchyard").mkdir()
    (repo / ".patchyard" / "config.yaml").write_text("# nothing\n")
    (repo / "far").mkdir()
    (repo / "far" / "f").write_text("f\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "start")
    (repo / LOST).unlink()
    git(repo, "commit", "-q", "-a", "-m", "lost")
    for branch in ("left", "right"):
        git(repo, "checkout", "-q", "-b", branch, "main")
        (repo / "armed" / "merged").write_text(f"{branch}\n")
        git(repo, "commit", "-q", "-a", "-m", branch)
    git(repo, "checkout", "-q", "main")
    git(repo, "remote", "add", "origin", ORIGIN)
    nested = repo / NESTED
    nested.mkdir(parents=True)
    git(nested, "init", "-q")
    (nested / "inner").write_text("inner\n")
    git(nested, "add", "inner")
    git(nested, "commit", "-q", "-m", "inner")
    git(repo, "-c", "advice.addEmbeddedRepo=false", "add", NESTED)
    git(repo, "commit", "-q", "-m", "nested")


def _edited(armed: Armed) -> None:
    """Leave what a user has not committed, and an untouched file that git must compare again."""
    repo = armed.repo
    (repo / "armed" / "edited").write_text("by hand\n")
    (repo / "armed" / "plain").write_text("by hand\n")
    (repo / "armed" / "new.y").write_text("new\n")
    (repo / "armed" / "apart").mkdir()
    (repo / "armed" / "apart" / "new.y").write_text("new\n")
    (repo / "b.crlf").write_text("one\r\ntwo\r\n")
    (repo / "staged").write_text("staged\n")
    git(repo, "add", "staged")
    git(repo, "update-index", "--skip-worktree", "staged")
    (repo / "staged").unlink()
    os.utime(repo / "armed" / "future", (FUTURE, FUTURE))
    git(repo, "update-index", "-q", "--refresh")


def _set(armed: Armed, config: Path) -> None:
    """Write every setting into one file of configuration."""
    for name in MARKS:
        armed.program(name, script=SCRIPTS.get(name, "exit 1"))
    with config.open("a") as file:
        for key, value in {**SETTINGS, **PLAIN}.items():
            file.write(_line(armed.filled(key), armed.filled(value)))


def _line(key: str, value: str) -> str:
    section, _, rest = key.partition(".")
    between, _, name = rest.rpartition(".")
    head = f'[{section} "{between}"]' if between else f"[{section}]"
    return f'{head}\n\t{name} = "{value}"\n'


def _hook(armed: Armed, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in HOOKS:
        shutil.copyfile(armed.program(f"hook-{name}", script="exit 0"), folder / name)
        (folder / name).chmod(0o755)


def _nested_armed(armed: Armed) -> None:
    program = armed.program("nested", script="exit 1")
    git(armed.repo / NESTED, "config", "core.fsmonitor", str(program))


def _plainly(armed: Armed) -> None:
    """Settings in the repository's own file, attributes in `info`, hooks where a setting says."""
    _set(armed, armed.git_dir / "config")
    _hook(armed, armed.folder / "hooks")
    git(armed.repo, "config", "core.hooksPath", str(armed.folder / "hooks"))
    (armed.git_dir / "info" / "attributes").write_text(ATTRIBUTES)


def _included(armed: Armed) -> None:
    """Settings in files that are included, attributes in the tree, hooks in their usual place."""
    (armed.repo / ".gitattributes").write_text(ATTRIBUTES)
    git(armed.repo, "add", ".gitattributes")
    git(armed.repo, "commit", "-q", "-m", "attributes", "--", ".gitattributes")
    git(armed.repo, "update-index", "--split-index")
    _set(armed, armed.git_dir / "always")
    shutil.copyfile(armed.git_dir / "always", armed.git_dir / "sometimes")
    _hook(armed, armed.git_dir / "hooks")
    git(armed.repo, "config", "include.path", "always")
    git(armed.repo, "config", f"includeIf.gitdir:{armed.git_dir}.path", "sometimes")


def _per_work_tree(armed: Armed) -> None:
    """Settings of this work tree alone, a sparse index, borrowed objects."""
    (armed.git_dir / "info" / "attributes").write_text(ATTRIBUTES)
    git(armed.repo, "sparse-checkout", "set", "--cone", "--sparse-index", "armed", "vendor")
    _hook(armed, armed.git_dir / "hooks")
    _set(armed, armed.git_dir / "config.worktree")


def _at_home(armed: Armed) -> None:
    """Settings and the attributes' place in the user's own configuration."""
    config = armed.home / ".gitconfig"
    (armed.home / "attributes").write_text(ATTRIBUTES)
    _hook(armed, armed.folder / "hooks")
    _set(armed, config)
    for key, value in {
        "core.attributesFile": armed.home / "attributes",
        "core.hooksPath": armed.folder / "hooks",
        "uploadpack.packObjectsHook": armed.program(HOME_ONLY, script='exec "$@"'),
    }.items():
        git(armed.folder, "config", "--file", str(config), key, str(value))


def _partly(armed: Armed) -> None:
    """A partial clone, of which a file is not here and would be fetched by a program."""
    _plainly(armed)
    program = armed.program(LAZY, script="exit 1")
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "lazy",
        "remote.lazy.partialCloneFilter": "blob:none",
        "remote.lazy.promisor": "true",
        "remote.lazy.uploadpack": str(program),
        "remote.lazy.url": f"file://{armed.repo}",
    }.items():
        git(armed.repo, "config", key, value)
    (armed.git_dir / "objects" / armed.lost[:2] / armed.lost[2:]).unlink()


SHAPES: Mapping[str, Callable[[Armed], None]] = {
    "at home": _at_home,
    "included": _included,
    "partial": _partly,
    "per work tree": _per_work_tree,
    "plain": _plainly,
}
BASIC = frozenset({"clean", "fsmonitor", "nested"})
NOT_LIVE = {"per work tree": {"alias"}}  # git looks for aliases before it knows the work tree
OWN = {"partial": {LAZY}, "at home": {HOME_ONLY}}


def expected(shape: str, *, thoroughly: bool) -> set[str]:
    """Return the marks that plain git leaves in such a checkout."""
    every = {*MARKS, *(f"hook-{name}" for name in HOOKS), *BASIC} - NOT_LIVE.get(shape, set())
    return (every if thoroughly else {*BASIC}) | OWN.get(shape, set())


def arm(folder: Path, shape: str) -> Armed:
    """Make an armed checkout in a folder, with a home and a place for marks beside it."""
    armed = Armed(folder=folder, shape=shape)
    for place in (armed.repo, armed.home, armed.marks):
        place.mkdir()
    armed.marks.chmod(0o777)
    _committed(armed)
    lender = folder / "lender"
    git(folder, "init", "-q", "--bare", str(lender))
    (armed.git_dir / "objects" / "info" / "alternates").write_text(f"{lender}/objects\n")
    _edited(armed)
    SHAPES[shape](armed)
    _nested_armed(armed)
    for mark in armed.marks.iterdir():
        mark.unlink()
    return armed


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
    for words in CONTROLS if thoroughly else BRIEF:
        subprocess.run(
            ["git", "-c", "safe.directory=*", *map(armed.filled, words)],
            cwd=armed.repo,
            env=environ,
            check=False,
            input=b"protocol=https\nhost=x.invalid\n\n",
            stdout=screen if words[0] == "log" else subprocess.DEVNULL,  # a pager wants a terminal
            stderr=subprocess.DEVNULL,
            timeout=120,
        )
    for end in (master, screen):
        with contextlib.suppress(OSError):
            os.close(end)
    return armed.ran
