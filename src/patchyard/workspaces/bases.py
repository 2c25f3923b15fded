"""Our read-only checkouts of base trees, and the synthetic git folder that goes with each.

Built once per tree and owner under a lock; unchanged files are linked from the nearest base of
ours. An agent sees them only below an overlay, or as a copy.
"""

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from patchyard.clients.deaths import FREE_MEMORY, death
from patchyard.clients.git import Git
from patchyard.clients.shelves import Shelf
from patchyard.clients.syncing import put_in_place
from patchyard.clients.treewriter import SHA1_HEX
from patchyard.domain.changeset import Base
from patchyard.domain.errors import Unavailable, WorkFailed
from patchyard.domain.machine import FREE_SPACE, is_full_disk
from patchyard.workspaces.store import alternates_of, init, write_whole

AGENT = '[user]\n\tname = "Patchyard agent"\n\temail = agent@patchyard.invalid\n'
INSIDE = "\tfilemode = true\n\tbare = false\n\tcheckStat = minimal\n\ttrustctime = false\n"

INDEX = ".index"  # ends the name of a checkout's index
LARGE_INDEX_BYTES = 100_000  # about 1,000 files
RUN_TIMEOUT_S = 600.0


class Bases:
    """The folder of all checkouts that belong to one owner."""

    def __init__(self, folder: Path, *, uid: int, gid: int) -> None:
        """Take the folder; it is made when first needed."""
        self.folder = folder / str(uid)
        self._shelf = base_shelf(folder, self.folder.name)
        self.uid = uid
        self.gid = gid

    def checkout(self, git: Git, tree: str, *, is_next: bool = True) -> Path:
        """Return the checkout of `tree`. `git` looks at the store that holds it.

        The next one links from it if that `is_next`: not from a part of a tree.
        """
        with self._shelf.using(tree) as place:
            if not place.exists():
                self._build(git, tree, place, is_next=is_next)
        return place

    def _build(self, git: Git, tree: str, place: Path, *, is_next: bool) -> None:
        made = self.folder / f".{tree}.new"
        index = self.folder / f".{tree}.index"
        _clear(made)
        index.unlink(missing_ok=True)
        near = self._near(git, tree)
        if near is None:
            made.mkdir()
        else:
            with self._shelf.using(near.name):
                run("cp", "-al", "--", str(near), str(made))
                shutil.copy2(self.folder / f".{near.name}.index", index)
        looking = git.streaming().at(git.git_dir, work_tree=made, index=index)
        begun = int(time.time())
        looking.run("read-tree", "--reset", "-u", tree, cwd=made)
        if near is not None and begun <= self._dated(near):
            self._set_apart(looking, near, tree, made)
        if os.geteuid() == 0:
            run("chown", "-hR", "--from=0:0", f"{self.uid}:{self.gid}", "--", str(made))
        _age(index)
        put_in_place(made, place)
        if is_next:
            write_whole(self._near_file(git), tree)

    def _near_file(self, git: Git) -> Path:
        return self.folder / f".near-{Path(git.git_dir or '').parent.name}"

    def _near(self, git: Git, tree: str) -> Path | None:
        try:
            near = self.folder / self._near_file(git).read_text()
        except FileNotFoundError:
            return None
        if not near.is_dir() or not (self.folder / f".{near.name}.index").exists():
            return None
        changed = git.attempt("diff-tree", "-r", "-z", "--name-only", near.name, tree)
        whole = git.run("ls-tree", "-r", "-z", "--name-only", tree).count(b"\0")
        is_known = changed.code == 0  # not where the store was made anew
        return near if is_known and changed.out.count(b"\0") * 2 < whole else None

    def _dated(self, near: Path) -> int:
        """Return the second after which no file of that base was written."""
        return int((self.folder / f".{near.name}.index").stat().st_mtime)

    def _set_apart(self, git: Git, near: Path, tree: str, made: Path) -> None:
        """Give new files another second than the nearest base's, which byte code caches compare."""
        second = self._dated(near)
        names = git.run("diff-tree", "-r", "-z", "--name-only", "--diff-filter=AM", near.name, tree)
        for name in names.split(b"\0")[:-1]:
            os.utime(
                b"/".join((os.fsencode(made), name)),
                (second + 1, second + 1),
                follow_symlinks=False,
            )
        git.attempt("update-index", "-q", "--refresh", cwd=made)

    def synthetic_git(self, git: Git, base: Base, history: Path) -> Path:
        """Return a folder that holds just `.git`: the base's history, readable, and no more."""
        name = f"{base.tree}.git-{base.commit}-{_told(base)}"
        self.checkout(git, base.tree, is_next=base.commit is not None)
        with self._shelf.using(name) as place:
            if not place.exists():
                made = self.folder / f".{name}.new"
                _clear(made)
                made.mkdir()
                self._make_git(git, base, history, made / ".git")
                put_in_place(made, place)
        return place

    def _make_git(self, git: Git, base: Base, history: Path, inside: Path) -> None:
        kind = "sha1" if len(base.tree) == SHA1_HEX else "sha256"
        init(git, inside, kind)
        (inside / "config").write_text(_config(kind, base.conversions))
        (inside / "info").mkdir(exist_ok=True)
        for name, blob in zip(("exclude", "attributes"), _told_rules(base), strict=True):
            (inside / "info" / name).write_bytes(_blob(git, blob))
        if base.commit is not None:
            self._give_history(git, base, base.commit, history, inside)
        if os.geteuid() == 0:
            run("chown", "-hR", f"{self.uid}:{self.gid}", "--", str(inside.parent))
        if base.commit is not None:
            _link_packs(history, inside / "objects" / "pack")

    def _give_history(self, git: Git, base: Base, commit: str, history: Path, inside: Path) -> None:
        """Let HEAD and the index say what the base stands on."""
        branch = base.branch
        head = f"ref: refs/heads/{branch}\n" if branch else f"{commit}\n"
        (inside / "HEAD").write_bytes(os.fsencode(head))
        if branch:
            (inside / "packed-refs").write_bytes(
                os.fsencode(f"# pack-refs with: peeled fully-peeled sorted \n{commit} "
                            f"refs/heads/{branch}\n")
            )  # fmt: skip
        if (history / "shallow").exists():
            shutil.copyfile(history / "shallow", inside / "shallow")
        shutil.copyfile(self.folder / f".{base.tree}.index", inside / "index")
        checkout = self.folder / base.tree
        looking = git.at(git.git_dir, work_tree=checkout, index=inside / "index")
        looking.run("read-tree", "-m", commit, cwd=checkout)
        if (inside / "index").stat().st_size > LARGE_INDEX_BYTES:
            _age(inside / "index")


def _told_rules(base: Base) -> tuple[str, str]:
    """Return the blobs of excludes and attributes that the agent may see; empty: none.

    What the repository itself chose as such may be any file of the user's, a key for one.
    """
    return (
        "" if "excludes" in base.withheld else base.excludes,
        "" if "attributes" in base.withheld else base.attributes,
    )


def _told(base: Base) -> str:
    """Name what else the agent's `.git` says: another clone of that commit says other things.

    A branch alone is named as it was in 0.5.
    """
    parts = [base.branch or ""]
    told = _told_rules(base)
    if any(told) or base.conversions:
        rules = [*told, sorted(base.conversions.items())]
        parts.append(json.dumps(rules))
    return hashlib.sha256(os.fsencode("\0".join(parts))).hexdigest()[:16]


def base_shelf(folder: Path, owner: str) -> Shelf:
    """Return the checkouts of one owner below `folder`, each with its index beside it."""
    return Shelf(folder / owner, str(folder.parent), beside=(INDEX,))


def _config(kind: str, conversions: Mapping[str, str]) -> str:
    version, extension = (
        ("0", "") if kind == "sha1" else ("1", "[extensions]\n\tobjectformat = sha256\n")
    )
    known = {"true", "false", "input", "lf", "crlf", "native"}
    kept = "".join(
        f"\t{key.removeprefix('core.')} = {value.lower()}\n"
        for key, value in conversions.items()
        if value.lower() in known
    )
    core = f"[core]\n\trepositoryformatversion = {version}\n{INSIDE}{kept}"
    return f"{core}{extension}{AGENT}[gc]\n\tauto = 0\n"


def _blob(git: Git, blob: str) -> bytes:
    return git.run("cat-file", "blob", blob) if blob else b""


def _link_packs(history: Path, folder: Path) -> None:
    """Link the packs in; they stay ours and read-only, and lie below an overlay."""
    folder.mkdir(exist_ok=True)
    for objects in (history / "objects", *alternates_of(history)):
        for pack in (objects / "pack").iterdir():
            if pack.suffix in {".pack", ".idx", ".rev"}:
                place = folder / pack.name
                place.unlink(missing_ok=True)
                place.hardlink_to(pack)


def _age(index: Path) -> None:
    """Date an index a second later than the files it describes, which do not change any more.

    Else git would take those of the same second for racy and read them all again.
    """
    second = int(index.stat().st_mtime) + 1
    os.utime(index, (second, second))


def _clear(place: Path) -> None:
    if place.exists():
        run("rm", "-rf", "--", str(place))


def run(*command: str) -> None:
    """Run a tool of the system on folders of ours.

    Raises Unavailable on a full disk or where it was killed, WorkFailed with its words, or when the
    time is over.
    """
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            timeout=RUN_TIMEOUT_S,
            umask=0o022,
            process_group=0,  # Ctrl-C is for us
        )
    except subprocess.TimeoutExpired as error:
        raise WorkFailed(
            f"{command[0]} took longer than {RUN_TIMEOUT_S:.0f} s",
            hint="look for a slow disk or network file system",
            details={"arguments": list(command)},
        ) from error
    if done.returncode == 0:
        return
    said = done.stderr.decode("utf-8", "replace").strip()[-500:]
    if words := death(done.returncode, said):
        raise Unavailable(f"{command[0]} {words}", hint=FREE_MEMORY)
    if is_full_disk(said):
        raise Unavailable(f"{command[0]} failed: {said}", hint=FREE_SPACE)
    raise WorkFailed(
        f"{command[0]} failed: {said}",
        hint="look for a missing right",
        details={"arguments": list(command)},
    )


__all__ = ["Bases", "base_shelf", "run"]
