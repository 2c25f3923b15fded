"""Checkouts in which everything is armed that git can be made to run.

Each vector leaves a mark of its own name when its program runs. A shape says where the settings and
attributes stand and what kind of checkout it is; `armed_controls` proves that they are live.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from armed_settings import (
    ATTRIBUTES,
    HOOK,
    MARKS,
    NESTED,
    PLAIN,
    SETTINGS,
    script_of,
)
from laboratory import git

__all__ = ["LAZY", "SHAPES", "TEMPLATE", "Armed", "arm"]

FUTURE = 2**31 - 1000  # a file of that time is newer than each index that names it
ORIGIN = "https://example.invalid/armed.git"
LAZY = "lazy-fetch"
LOST = "lost.txt"
SUBMODULE = f'[submodule "nested"]\n\tpath = {NESTED}\n\turl = ./{NESTED}\n'
TEMPLATE = "template-hook"
# Blobs of these have names that begin with 17: by the number of those git counts loose objects.
SEEDS = (b"32", b"119", b"334")


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

    @property
    def object(self) -> Path:
        """Where that blob lies in a whole repository."""
        return self.git_dir / "objects" / self.lost[:2] / self.lost[2:]

    @property
    def kept(self) -> Path:
        """Where it lies beside a partial clone."""
        return self.folder / "kept"

    def program(self, name: str) -> Path:
        """Write a program that leaves its mark."""
        place = self.folder / "programs" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/sh\n: > '{self.marks}/{name}'\n{script_of(name)}\n")
        place.chmod(0o755)
        return place

    def filled(self, text: str) -> str:
        """Return a text with the programs' places in it."""
        for name in sorted(MARKS, key=len, reverse=True):
            text = text.replace(f"{{{name}}}", str(self.folder / "programs" / name))
        places = {name: self.folder / name for name in ("clone", "linked", "repo")}
        known = {"lost": self.lost, **places}
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
    (repo / ".gitmodules").write_text(SUBMODULE)
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
        armed.program(name)
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
    for name, mark in HOOK.items():
        shutil.copyfile(armed.program(mark), folder / name)
        (folder / name).chmod(0o755)


def _nested_armed(armed: Armed) -> None:
    program = armed.program("nested")
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
    watchman = armed.git_dir / "hooks" / "fsmonitor-watchman"
    git(
        armed.repo,
        "config",
        "--file",
        str(armed.git_dir / "always"),
        "core.fsmonitor",
        str(watchman),
    )
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
    template = armed.folder / "template" / "hooks"
    template.mkdir(parents=True)
    shutil.copy(armed.program(TEMPLATE), template / "post-checkout")
    for key, value in {
        "core.attributesFile": armed.home / "attributes",
        "core.hooksPath": armed.folder / "hooks",
        "init.templateDir": template.parent,
    }.items():
        git(armed.folder, "config", "--file", str(config), key, str(value))


def _partly(armed: Armed) -> None:
    """A partial clone, of which a file is not here and would be fetched by a program."""
    _plainly(armed)
    program = armed.program(LAZY)
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "lazy",
        "remote.lazy.partialCloneFilter": "blob:none",
        "remote.lazy.promisor": "true",
        "remote.lazy.uploadpack": str(program),
        "remote.lazy.url": f"file://{armed.repo}",
    }.items():
        git(armed.repo, "config", key, value)
    armed.object.rename(armed.kept)


SHAPES: Mapping[str, Callable[[Armed], None]] = {
    "at home": _at_home,
    "included": _included,
    "partial": _partly,
    "per work tree": _per_work_tree,
    "plain": _plainly,
}


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
    for seed in SEEDS:
        git(armed.repo, "hash-object", "-w", "--stdin", stdin=seed)
    _edited(armed)
    SHAPES[shape](armed)
    _nested_armed(armed)
    for mark in armed.marks.iterdir():
        mark.unlink()
    return armed
