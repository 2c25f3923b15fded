"""Repositories with traps: each leaves a file in the canary folder when it runs on this machine."""

import contextlib
import os
import socket
import stat
from pathlib import Path

from mainjob.driver import Desk, git

__all__ = ["ODD_NAMES", "ORDERS", "SHADOWS", "git_traps", "odd_files", "odd_names", "submodules"]

HOOKS = (
    *("applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout"),
    *("post-commit", "post-index-change", "post-merge", "post-rewrite", "pre-applypatch"),
    *("pre-auto-gc", "pre-commit", "pre-merge-commit", "pre-push", "prepare-commit-msg"),
    *("proc-receive", "push-to-checkout", "reference-transaction", "sendemail-validate"),
)
ORDERS = {  # configuration keys that name a program, or a place to read more of them from
    "core.fsmonitor": "{touch} fsmonitor; false",
    "core.pager": "{touch} pager",
    "pager.diff": "{touch} pager-diff",
    "core.editor": "{touch} editor",
    "sequence.editor": "{touch} sequence-editor",
    "core.sshCommand": "{touch} sshCommand",
    "core.gitProxy": "{touch} gitProxy",
    "core.askPass": "{touch} askPass",
    "core.alternateRefsCommand": "{touch} alternateRefsCommand",
    "credential.helper": "!{touch} credential",
    "diff.external": "{touch} diff-external",
    "diff.x.command": "{touch} diff-command",
    "diff.x.textconv": "{touch} textconv",
    "interactive.diffFilter": "{touch} diffFilter",
    "merge.x.driver": "{touch} merge-driver",
    "filter.x.clean": "{touch} clean; cat",
    "filter.x.smudge": "{touch} smudge; cat",
    "filter.x.required": "true",
    "filter.lfs.clean": "{touch} lfs-clean; cat",
    "filter.lfs.smudge": "{touch} lfs-smudge; cat",
    "filter.y.process": "{touch} process",
    "gpg.program": "{program}",
    "commit.gpgSign": "true",
    "tag.gpgSign": "true",
    "alias.status": "!{touch} alias",
    "remote.origin.url": "ext::sh -c '{touch} ext-origin'",
    "remote.origin.uploadpack": "{touch} uploadpack",
    "remote.origin.promisor": "true",
    "remote.origin.partialclonefilter": "blob:none",
    "extensions.partialClone": "origin",
    "protocol.ext.allow": "always",
    "protocol.allow": "always",
    "uploadpack.packObjectsHook": "{touch} packObjectsHook",
    "url.ext::sh -c '{touch} insteadOf' .insteadOf": "/",
    "submodule.recurse": "true",
    "submodule.deep.update": "!{touch} submodule-update",
    "receive.procReceiveRefs": "refs/heads",
    "gc.auto": "1",
    "maintenance.auto": "true",
    "sendemail.sendmailCmd": "{touch} sendmail",
    "trace2.normalTarget": "{canary}/trace2",
}
ATTRIBUTES = "* filter=x diff=x merge=x\n*.lfs filter=lfs diff=lfs merge=lfs\n*.y filter=y\n"
SHADOWS = ("json", "socket", "os", "subprocess", "re", "selectors", "site", "sitecustomize")
ODD_NAMES = (
    *(b"-rf", b"--upload-pack=touch x", b":(top,glob)**", b":!a.txt", b"$(touch pwned)"),
    *(b"`touch pwned`", b"; touch pwned", b" leading", b"trailing ", b"two  words", b"new\nline"),
    *(b"tab\there", b"\x1b[31mred", b"back\\slash", b'quote"d', b"Case", b"case", b"\xff\xfe"),
    *(b"caf\xc3\xa9", b"cafe\xcc\x81", b"x" * 255, b"\x01\x7f", b"%s%n", b"*", b"?", b"[a]"),
    *(b"~", b"#comment", b"!bang", b"con.txt", b"HEAD", b"@", b"refs"),
)
LFS_POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


def _program(desk: Desk, name: str) -> Path:
    place = desk.folder / "programs" / name
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\ntouch '{desk.canary}/{name}'\nexit 1\n")
    place.chmod(0o755)
    return place


def _order(desk: Desk, config: Path, mark: str) -> None:
    """Write every order into one configuration file."""
    program = _program(desk, f"{mark}-program")
    touch = f"touch {desk.canary}/{mark}-trap;:"
    for key, value in ORDERS.items():
        known = {"touch": touch, "program": program, "canary": desk.canary}
        git(
            desk.folder, "config", "--file", str(config), key.format(**known), value.format(**known)
        )
    included = config.with_name("included")
    included.write_text(f"[core]\n\tfsmonitor = {touch} false\n")
    git(desk.folder, "config", "--file", str(config), "include.path", str(included))


def _arm(desk: Desk, git_dir: Path, mark: str) -> None:
    """Put every order and hook into one repository."""
    _order(desk, git_dir / "config", mark)
    hooks = git_dir / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in HOOKS:
        (hooks / name).write_text(f"#!/bin/sh\ntouch '{desk.canary}/{mark}-hook-{name}'\n")
        (hooks / name).chmod(0o755)
    git(git_dir, "config", "--file", "config", "core.hooksPath", str(hooks))
    (git_dir / "info" / "attributes").write_text(ATTRIBUTES)


def git_traps(desk: Desk, home: Path | None = None) -> None:
    """Arm the repository, one nested in it, and a bare one of its tree; or the user's `home`."""
    repo = desk.repo
    (repo / ".gitattributes").write_text(ATTRIBUTES)
    (repo / "pointer.lfs").write_text(LFS_POINTER)
    (repo / "some.y").write_text("y\n")
    (repo / ".lfsconfig").write_text("[lfs]\n\turl = ext::sh -c false\n")
    bare = repo / "bare"
    for name in ("objects/pack", "refs/heads"):
        (bare / name).mkdir(parents=True)
        (bare / name / "kept").write_text("")
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    (bare / "config").write_text(
        f"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch {desk.canary}/bare; false\n"
    )
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "traps")
    nested = repo / "vendor" / "nested"
    nested.mkdir(parents=True)
    git(nested, "init", "-q")
    (nested / "inner.txt").write_text("inner\n")
    (nested / ".gitattributes").write_text(ATTRIBUTES)
    _arm(desk, nested / ".git", "nested")
    if home is None:
        _arm(desk, repo / ".git", "own")
    else:
        _order(desk, home / ".gitconfig", "home")


def submodules(desk: Desk) -> None:
    """Commit submodules whose addresses and names are orders."""
    commit = git(desk.repo, "rev-parse", "HEAD").strip()
    trap = f"touch {desk.canary}/submodule"
    (desk.repo / ".gitmodules").write_text(
        f'[submodule "deep"]\n\tpath = deep\n\turl = ext::sh -c "{trap}"\n\tupdate = !{trap}\n'
        f'[submodule "../../up"]\n\tpath = up\n\turl = --upload-pack={trap}\n'
        f'[submodule "-u"]\n\tpath = dash\n\turl = ssh://-oProxyCommand={trap}/x\n'
    )
    git(desk.repo, "add", ".gitmodules")
    for name in ("deep", "up", "dash"):
        git(desk.repo, "update-index", "--add", "--cacheinfo", f"160000,{commit},{name}")
    git(desk.repo, "commit", "-q", "-m", "submodules")


def odd_names(desk: Desk) -> None:
    """Files with names that something might take for more; half of them tracked."""
    for number, name in enumerate(ODD_NAMES):
        (desk.repo / os.fsdecode(name)).write_bytes(b"content of %d\n" % number)
        if number % 2:
            git(desk.repo, "--literal-pathspecs", "add", "--", os.fsdecode(name))
    git(desk.repo, "commit", "-q", "-m", "odd names")


def odd_files(desk: Desk) -> None:
    """FIFOs, sockets, devices, set-user-ID files, links to outside; a FIFO where a file was."""
    repo = desk.repo
    outside = desk.folder / "outside"
    outside.write_text("outside\n")
    (repo / "tracked").write_text("tracked\n")
    git(repo, "add", "tracked")
    git(repo, "commit", "-q", "-m", "tracked")
    (repo / "tracked").unlink()
    os.mkfifo(repo / "tracked")
    os.mkfifo(repo / "fifo")
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(repo):
        listener.bind("sock")
    if os.geteuid() == 0:
        os.mknod(repo / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(repo / "zero", stat.S_IFBLK | 0o666, os.makedev(259, 250))
    (repo / "setuid").write_text("#!/bin/sh\n")
    (repo / "setuid").chmod(0o6755)
    (repo / "hard").hardlink_to(outside)
    (repo / "passwd").symlink_to("/etc/passwd")
    (repo / "home").symlink_to(desk.home)
    (repo / "loop").symlink_to("loop")
    (repo / "folder").symlink_to("/")
