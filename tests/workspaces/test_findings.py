import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from laboratory import Lab, git, started
from patchyard.domain.changeset import FindingKind

pytestmark = pytest.mark.anyio


def _fifo(root: Path) -> None:
    os.mkfifo(root / "pipe")


def _socket(root: Path) -> None:
    descriptor = os.open(root, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{descriptor}/socket")
    os.close(descriptor)


def _setuid(root: Path) -> None:
    (root / "setuid").write_text("x")
    (root / "setuid").chmod(0o4755)


def _nested(root: Path) -> None:
    (root / "n").mkdir()
    git(root / "n", "init", "-q")
    (root / "n/file").write_text("f\n")


def _dot_git_file(root: Path) -> None:
    (root / "m").mkdir()
    (root / "m/.GIT").write_text("gitdir: /etc\n")


def _escaping(root: Path) -> None:
    (root / "d/up").symlink_to("../../outside")


def _absolute(root: Path) -> None:
    (root / "passwd").symlink_to("/etc/passwd")


def _modules_link(root: Path) -> None:
    (root / ".gitmodules").symlink_to("a.txt")


def _ntfs(root: Path) -> None:
    (root / "GIT~1").write_text("x")


def _envrc(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub/.envrc").write_text("export X=1\n")


def _package_script(root: Path) -> None:
    (root / "web").mkdir()
    (root / "web/package.json").write_text('{"scripts": {"postinstall": "node x.js"}}')


def _package(root: Path) -> None:
    (root / "lib").mkdir()
    (root / "lib/package.json").write_text('{"name": "lib"}')


def _replaced(root: Path) -> None:
    (root / "a.txt").unlink()
    os.mkfifo(root / "a.txt")


def _attribute(root: Path) -> None:
    (root / "noted").write_text("x")
    os.setxattr(root / "noted", "user.note", b"1")


ODDITIES: dict[str, tuple[Callable[[Path], None], FindingKind]] = {
    "pipe": (_fifo, FindingKind.SPECIAL_FILE),
    "socket": (_socket, FindingKind.SPECIAL_FILE),
    "setuid": (_setuid, FindingKind.SETUID),
    "n/.git": (_nested, FindingKind.NESTED_GIT),
    "m/.GIT": (_dot_git_file, FindingKind.NESTED_GIT),
    "d/up": (_escaping, FindingKind.ESCAPING_LINK),
    "passwd": (_absolute, FindingKind.ESCAPING_LINK),
    ".gitmodules": (_modules_link, FindingKind.REFUSED_NAME),
    "GIT~1": (_ntfs, FindingKind.NESTED_GIT),
    "sub/.envrc": (_envrc, FindingKind.PROTECTED_PATH),
    "web/package.json": (_package_script, FindingKind.PROTECTED_PATH),
    "a.txt": (_replaced, FindingKind.SPECIAL_FILE),
    "noted": (_attribute, FindingKind.XATTR),
}


async def test_what_a_change_set_cannot_or_must_not_carry_is_a_finding(lab: Lab) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)
    for make, _ in ODDITIES.values():
        make(root)
    _package(root)  # without scripts it is a file like any other

    changeset = await lab.workspaces.capture(base, ref)

    found = {each.path: each.kind for each in changeset.findings}
    assert found == {path: kind for path, (_, kind) in ODDITIES.items()}
    assert {change.path for change in changeset.changes} == {
        *("setuid", "d/up", "passwd", "sub/.envrc", "noted", "n/file"),
        *("web/package.json", "lib/package.json"),
        "a.txt",  # gone: a FIFO took its place
    }
    assert await lab.workspaces.capture(base, ref) == changeset
