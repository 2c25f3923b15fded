"""The first file system of a virtual machine: Python, the toolbox and the kernel's drivers.

Written as the kernel reads it (cpio, "newc"; Documentation/driver-api/early-userspace), of this
machine's own Python.
"""

import os
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath, PurePosixPath

from patchyard.clients.guest_kernels import GuestKernel, content_of
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.toolbox.wire import loaded

LOOK_TIMEOUT_S = 30.0
LOOK = """
import json, os, sys
sys.path.append(sys.argv[1])
import toolbox.guest
found = {os.path.realpath(sys.executable), sys.executable}
found.update(filter(None, (getattr(m, "__file__", None) for m in list(sys.modules.values()))))
found.update(filter(None, (getattr(m, "__cached__", None) for m in list(sys.modules.values()))))
with open("/proc/self/maps") as file:
    lines = [line.split(None, 5) for line in file]
found.update(line[5].strip() for line in lines if len(line) > 5 and line[5].startswith("/"))
print(json.dumps(sorted(name for name in found if os.path.isfile(name))))
"""
"""Names every file that a Python holds which has loaded what the first process needs."""
LOADERS = ("/lib64", "/lib")
INIT = """#!{python} -ISB
import sys
sys.path.append("/")
from toolbox.guest import main
main()
"""
FOLDERS = ("dev", "modules", "proc", "sys")
CONSOLE = (5, 1)


def initramfs(kernel: GuestKernel, *, python: str, code: Path) -> bytes:
    """Return the archive; `code` is the folder that holds the compiled `toolbox`."""
    tree = _Tree()
    for path in (Path(name) for name in _held(python, code)):
        if not path.is_relative_to(code):
            tree.show(path)
            for other in _names_of(path):
                tree.show(other)
    for folder in LOADERS:
        for loader in Path(folder).glob("ld-linux*"):
            tree.show(loader)
    for path in sorted((code / "toolbox").rglob("*")):
        if path.is_file():
            tree.add(path.relative_to(code), stat.S_IFREG | 0o644, path.read_bytes())
    for number, module in enumerate(kernel.modules):
        name = f"modules/{number:02}-{module.name.split('.')[0]}"
        tree.add(PurePosixPath(name), stat.S_IFREG | 0o600, content_of(module))
    for name in FOLDERS:
        tree.add(PurePosixPath(name), stat.S_IFDIR | 0o755, b"")
    tree.add(PurePosixPath("init"), stat.S_IFREG | 0o755, INIT.format(python=python).encode())
    return tree.archive()


def _names_of(library: Path) -> Iterator[Path]:
    """Yield the names that a library is asked for by."""
    for beside in library.parent.iterdir():
        if ".so" in beside.name and beside.is_symlink() and beside.resolve() == library:
            yield beside


def _held(python: str, code: Path) -> list[str]:
    try:
        said = subprocess.run(
            [python, "-I", "-S", "-B", "-c", LOOK, str(code)],
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=LOOK_TIMEOUT_S,
            env={"PATH": os.defpath},
        )
        found: list[str] = loaded(said.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise EnvironmentUnavailable(f"{python} does not run: {error}") from error
    return found


class _Tree:
    """Files, links and folders by their path, without the slash at its beginning."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[int, bytes]] = {}

    def show(self, path: Path) -> None:
        """Add what lies at `path` here, with every link on the way."""
        done = Path("/")
        parts = list(path.parts[1:])
        while parts:
            done /= parts.pop(0)
            if done.is_symlink():
                target = done.readlink()
                self.add(done.relative_to("/"), stat.S_IFLNK | 0o777, os.fsencode(target))
                real = Path(os.path.normpath(done.parent / target))
                parts = [*real.parts[1:], *parts]
                done = Path("/")
            elif not parts:
                mode = 0o755 if os.access(done, os.X_OK) else 0o644
                self.add(done.relative_to("/"), stat.S_IFREG | mode, done.read_bytes())

    def add(self, path: PurePath, mode: int, data: bytes) -> None:
        """Add an entry, and the folders it lies in."""
        for parent in path.parents:
            if str(parent) != ".":
                self._entries.setdefault(str(parent), (stat.S_IFDIR | 0o755, b""))
        self._entries[str(path)] = (mode, data)

    def archive(self) -> bytes:
        """Return all of it, folders before what lies in them."""
        made = bytearray()
        number = 0
        for number, (name, (mode, data)) in enumerate(sorted(self._entries.items()), 1):
            made += _member(number, name, mode, data)
        made += _member(number + 1, "dev/console", stat.S_IFCHR | 0o600, b"", CONSOLE)
        made += _member(0, "TRAILER!!!", 0, b"")
        return bytes(made)


def _member(
    number: int, name: str, mode: int, data: bytes, device: tuple[int, int] = (0, 0)
) -> bytes:
    raw = os.fsencode(name) + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(raw), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + raw
    return _whole(head) + _whole(data)


def _whole(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def digest_facts(kernel: GuestKernel) -> Mapping[str, object]:
    """Return what tells one kernel from another, without reading it."""
    facts = kernel.path.stat()
    return {"kernel": str(kernel.path), "size": facts.st_size, "changed": facts.st_mtime_ns}


__all__ = ["digest_facts", "initramfs"]
