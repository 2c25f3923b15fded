"""Files outside the workspace: read, written, deleted; devices and settings of the kernel."""

from __future__ import annotations

import ctypes
import itertools
import os
import stat
import struct
import time

from .kit import LIBC, call, done, first, processes, show, tell, victims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

    Given = dict[str, Any]

DEVICES = (
    *("/dev/mem", "/dev/port", "/dev/kmsg", "/dev/fuse", "/dev/net/tun", "/dev/kvm"),
    *("/dev/vsock", "/dev/vhost-net", "/dev/vhost-vsock", "/dev/loop-control", "/dev/hwrng"),
    *("/dev/uinput", "/dev/snapshot", "/dev/mapper/control", "/dev/dri/card0", "/dev/userfaultfd"),
)
KERNEL = ("kernel/core_pattern", "kernel/modprobe", "kernel/hotplug", "vm/overcommit_memory")
SYS = (
    *("/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled"),
    *("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs", "/sys/power/state"),
)
EXCHANGE = 2  # RENAME_EXCHANGE
FLIPS_S = 0.5
LOOKS_S = 0.001  # between a naive tool's look and its opening


def by_path(given: Given) -> None:
    """Read it by its absolute path."""
    show(given["secret"])


def by_parent(given: Given) -> None:
    """Read it by a path of `..` from the workspace."""
    show(os.path.relpath(given["secret"], os.getcwd()))


def by_link(given: Given) -> None:
    """Read it through a symbolic link."""
    os.symlink(given["secret"], given["spot"])
    show(given["spot"])


def by_hard_link(given: Given) -> None:
    """Give it a second name in the workspace."""
    os.link(given["secret"], given["spot"])
    show(given["spot"])


def overwrite(given: Given) -> None:
    """Write over it."""
    with open(given["secret"], "w", encoding="ascii") as file:
        file.write("overwritten")


def delete(given: Given) -> None:
    """Delete it."""
    os.unlink(given["secret"])


def add(given: Given) -> None:
    """Put another file beside it."""
    with open(os.path.join(given["folder"], "added"), "w", encoding="ascii") as file:
        file.write("added")


def through_roots(given: Given) -> None:
    """Read it through the root or the working folder of another process."""
    ways = ("/proc/%d/root" + given["secret"], "/proc/%d/cwd/secret")
    first(show, (way % pid for pid in processes() for way in ways))


def through_descriptors(given: Given) -> None:
    """Read it through a descriptor that another process has open."""
    fd = given["victim"]["fd"]
    first(show, ("/proc/%d/fd/%d" % (pid, fd) for pid in victims(given)))


def by_handle(given: Given) -> None:
    """Open it by the number of its inode, which passes every mount."""
    kind, content = given["handle"]["kind"], bytes.fromhex(given["handle"]["content"])
    handle = struct.pack("Ii", len(content), kind) + content
    workspace = os.open(".", os.O_RDONLY)
    opened = call("open_by_handle_at", workspace, ctypes.create_string_buffer(handle), os.O_RDONLY)
    tell(os.read(opened, 4096))


def leaked_descriptor(_given: Given) -> None:
    """Go out through a folder that somebody left open."""

    def read_from(folder: int) -> None:
        tell(os.read(os.open("secret", os.O_RDONLY, dir_fd=folder), 4096))

    open_here = map(int, os.listdir("/proc/self/fd"))
    first(read_from, (number for number in open_here if number > 2))


def open_device(given: Given) -> None:
    """Open a device of the machine."""
    with open("/proc/partitions", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[2:]]
    disks = ["/dev/" + row[3] for row in rows]
    for path in itertools.chain(DEVICES, disks):
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except OSError:
            continue
        done(given, path)


def make_device(given: Given) -> None:
    """Make a device of one's own and open it."""
    os.mknod(given["spot"], stat.S_IFCHR | 0o666, os.makedev(1, 11))
    os.close(os.open(given["spot"], os.O_RDONLY | os.O_NONBLOCK))
    done(given)


def open_kernel_setting(given: Given) -> None:
    """Open a setting of the kernel for writing; nothing is written."""
    _open_to_write(given, ("/proc/sys/" + name for name in KERNEL))


def open_sys_setting(given: Given) -> None:
    """Open a setting below /sys for writing; nothing is written."""
    _open_to_write(given, SYS)


def _open_to_write(given: Given, paths: Iterable[str]) -> None:
    def try_one(path: str) -> None:
        os.close(os.open(path, os.O_WRONLY))
        done(given, path)

    first(try_one, paths)


def make_links(given: Given) -> None:
    """Lay links to the outside into the workspace, for a tool to go through."""
    os.symlink(given["secret"], os.path.join(given["near"], "link"))
    os.symlink(given["folder"], os.path.join(given["near"], "out"))


def flip(given: Given) -> None:
    """Let a folder of the workspace and a link to the outside change places all the time."""
    near = given["near"]
    os.mkdir(os.path.join(near, "turn"))
    with open(os.path.join(near, "turn", "secret"), "w", encoding="ascii") as file:
        file.write("nothing")
    os.symlink(given["folder"], os.path.join(near, "other"))
    one, two = (os.path.join(near, name).encode() for name in ("turn", "other"))
    end = time.monotonic() + FLIPS_S
    while time.monotonic() < end:
        if LIBC.renameat2(-100, one, -100, two, EXCHANGE) != 0:
            raise OSError(ctypes.get_errno(), "renameat2")


def naive_tool(given: Given) -> None:
    """Read as a tool that follows links would."""
    make_links(given)
    for path in (given["secret"], os.path.join(given["near"], "link")):
        show(path)


def naive_writing_tool(given: Given) -> None:
    """Write as a tool that follows links would."""
    make_links(given)
    with open(os.path.join(given["near"], "out", "secret"), "w", encoding="ascii") as file:
        file.write("overwritten")


def naive_racing_tool(given: Given) -> None:
    """Read as a tool would that looks first and opens then."""
    reader = os.fork()
    if reader == 0:
        place = os.path.join(given["near"], "turn")
        while True:
            try:
                if not os.path.islink(place):
                    time.sleep(LOOKS_S)
                    show(os.path.join(place, "secret"))
            except OSError:
                continue
    try:
        flip(given)
    finally:
        os.kill(reader, 9)
        os.waitpid(reader, 0)


__all__ = [
    "DEVICES",
    "EXCHANGE",
    "FLIPS_S",
    "KERNEL",
    "LOOKS_S",
    "SYS",
    "add",
    "by_handle",
    "by_hard_link",
    "by_link",
    "by_parent",
    "by_path",
    "delete",
    "flip",
    "leaked_descriptor",
    "make_device",
    "make_links",
    "naive_racing_tool",
    "naive_tool",
    "naive_writing_tool",
    "open_device",
    "open_kernel_setting",
    "open_sys_setting",
    "overwrite",
    "through_descriptors",
    "through_roots",
]
