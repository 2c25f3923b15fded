"""A real repository, our home beside it, and the few steps that most tests of workspaces take."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from patchyard.contracts.handover import Order, Receipt
from patchyard.contracts.workspace import CheckpointingWorkspaces, WorkspaceRef
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.workspaces.copy import CopyWorkspaces
from patchyard.workspaces.handover import GitHandOver
from patchyard.workspaces.overlay import OverlayWorkspaces
from patchyard.workspaces.pinned import GitTrees

AGENT = 61234  # a user ID without a passwd entry, under root only

__all__ = ["AGENT", "Lab", "bytes_below", "fingerprint", "git", "lab_at", "started"]


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    """Run the user's own git, as a person would."""
    person = {
        "GIT_AUTHOR_NAME": "Ann",
        "GIT_AUTHOR_EMAIL": "ann@example.org",
        "GIT_COMMITTER_NAME": "Ann",
        "GIT_COMMITTER_EMAIL": "ann@example.org",
    }
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, **person},
    )
    assert done.returncode == 0, done.stderr.decode()
    return os.fsdecode(done.stdout)


def bytes_below(folder: Path, *, skip: str = ".git") -> dict[str, tuple[str, bytes]]:
    """Kind and content of each file and link below a folder."""
    found = {}
    for place in sorted(folder.rglob("*")):
        path = str(place.relative_to(folder))
        if path == skip or path.startswith(f"{skip}/"):
            continue
        if place.is_symlink():
            found[path] = ("link", os.fsencode(place.readlink()))
        elif place.is_file():
            found[path] = ("x" if place.stat().st_mode & 0o100 else "-", place.read_bytes())
    return found


def fingerprint(folder: Path) -> dict[str, tuple[int, int, int, int, int]]:
    """What must not change when nobody writes: mode, size, times, inode of everything."""
    found = {}
    for place in sorted([folder, *folder.rglob("*")]):
        s = place.lstat()
        found[str(place)] = (s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino)
    return found


@dataclass(frozen=True, kw_only=True)
class Lab:
    """One checkout and everything of ours around it."""

    repo: Path
    trees: GitTrees
    workspaces: CheckpointingWorkspaces

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Write files into the user's checkout."""
        write(self.repo, files)

    def commit(self, message: str = "change") -> str:
        """Commit everything there is."""
        git(self.repo, "add", "-A")
        git(self.repo, "commit", "-q", "-m", message)
        return git(self.repo, "rev-parse", "HEAD").strip()

    async def base(self, ref: str | None = None) -> Base:
        """Snapshot the checkout."""
        return await self.trees.snapshot(self.repo, ref=ref)

    async def workspace(
        self,
        base: Base,
        name: str = "w1",
        *,
        layers: tuple[Path, ...] = (),
        tree: str | None = None,
    ) -> tuple[WorkspaceRef, Path]:
        """Make a workspace and return it with its root."""
        ref = await self.workspaces.create(base, workspace_id=name, layers=layers, tree=tree)
        return ref, await self.workspaces.open(base, ref)

    async def changed(self, base: Base, files: Mapping[str, str | bytes | None]) -> ChangeSet:
        """Make a workspace, edit files in it (None deletes), and return what came of it."""
        ref, root = await self.workspace(base, f"w-{os.urandom(4).hex()}")
        try:
            write(root, {path: text for path, text in files.items() if text is not None})
            for path, text in files.items():
                if text is None:
                    (root / path).unlink()
            return await self.workspaces.capture(base, ref)
        finally:
            await self.workspaces.remove(ref)

    async def apply(self, base: Base, changeset: ChangeSet, order: Order) -> Receipt:
        """Hand over in both steps."""
        handing = GitHandOver(self.trees)
        intent = await handing.plan(base, changeset, order)
        return await handing.carry_out(base, changeset, order, intent)

    def fresh(self, base: Base, target: Path) -> Path:
        """Return a writable copy of the base's files without any git."""
        shutil.copytree(self.trees.bases.folder / base.tree, target, symlinks=True)
        return target


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files below a folder, their folders made."""
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        raw = content if isinstance(content, bytes) else content.encode()
        if place.is_symlink():
            place.unlink()
        place.write_bytes(raw)


def lab_at(place: Path, strategy: str) -> Lab:
    """Return a laboratory in a folder."""
    repo = place / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    owner = AGENT if os.geteuid() == 0 else os.geteuid()
    trees = GitTrees(place / "home", uid=owner, gid=owner)
    made = OverlayWorkspaces if strategy == "overlay" else CopyWorkspaces
    return Lab(repo=repo, trees=trees, workspaces=made(trees, place / "plans"))


async def started(lab: Lab) -> Base:
    """Commit the usual files and return their base."""
    lab.write(
        {
            "a.txt": "one\ntwo\nthree\n",
            "d/b.txt": "b\n",
            "d/c.txt": "c\n",
            "e/f/g.txt": "g\n",
            "run.sh": "#!/bin/sh\n",
            ".gitignore": "*.pyc\nbuild/\n",
            "build/kept.txt": "tracked though ignored\n",
        }
    )
    git(lab.repo, "add", "-f", ".")
    lab.commit()
    return await lab.base()
