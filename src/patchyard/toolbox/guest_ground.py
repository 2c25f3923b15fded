"""Brings a virtual machine up to where a toolbox can run: modules, the file tree, devices.

All of it happens before any workspace or secret is there, as the machine's first process.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import time

INIT_MODULE = {"x86_64": 313, "aarch64": 273}  # finit_module(2)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_MOVE = 1, 2, 4, 32, 4096, 8192
IN_MEMORY_FLAGS = MS_NOSUID | MS_NODEV
POWER_OFF = 0x4321FEDC  # linux/reboot.h
WAIT_S = 30.0  # for a device, on a busy machine
IMAGE, ROOT = "/image", "/new"
CODE = "/run/patchyard"
EMPTY = {"/mnt": 0o755, "/root": 0o700, "/run": 0o755}
IN_MEMORY = {"/dev/shm": 5, "/home": 15, "/tmp": 15, "/var/tmp": 5}  # noqa: S108 - made here
"""What anybody may write to, each with the part of the memory that it may take, in percent."""
WORKSPACE_PART = 50
SPREAD = ("opt", "srv", "var")
"""Folders that are made anew, so that a workspace can lie beside what the image has there."""
MADE = ("dev", "etc", "home", "mnt", "proc", "root", "run", "sys", "tmp")
DEVICES = {
    "full": (1, 7),
    "null": (1, 3),
    "random": (1, 8),
    "tty": (5, 0),
    "urandom": (1, 9),
    "zero": (1, 5),
}
DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "ptmx": "pts/ptmx",
    "stderr": "/proc/self/fd/2",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
}
SETTINGS = {
    "fs/suid_dumpable": "0",
    "kernel/dmesg_restrict": "1",
    "kernel/kptr_restrict": "2",
    "kernel/unprivileged_bpf_disabled": "1",
    "user/max_user_namespaces": "0",
    "vm/overcommit_memory": "0",
}

_libc = ctypes.CDLL(None, use_errno=True)


def _raw(text: str) -> bytes | None:
    return text.encode("utf-8", "surrogateescape") or None


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Attach a file system, as the system call does. Raises OSError."""
    words = [_raw(word) for word in (source, target, kind)]
    if _libc.mount(*words, ctypes.c_ulong(flags), _raw(options)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def power_off() -> None:
    """End the machine."""
    _libc.reboot(POWER_OFF)


def begin() -> None:
    """Mount what the kernel shows, and load the modules that lie in /modules, in their order."""
    os.umask(0o022)
    mount("proc", "/proc", "proc")
    mount("sys", "/sys", "sysfs")
    mount("dev", "/dev", "devtmpfs")
    for name in sorted(os.listdir("/modules")):
        descriptor = os.open("/modules/" + name, os.O_RDONLY)
        call = INIT_MODULE[os.uname().machine]
        if _libc.syscall(call, descriptor, b"", 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), name)
        os.close(descriptor)


def awaited(path: str) -> str:
    """Return `path` once it is there. Raises TimeoutError."""
    deadline = time.monotonic() + WAIT_S
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise TimeoutError(path)
        time.sleep(0.002)
    return path


def port(name: str) -> int:
    """Return the virtio port of that name, opened."""
    awaited("/sys/class/virtio-ports")
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        for found in os.listdir("/sys/class/virtio-ports"):
            with open("/sys/class/virtio-ports/%s/name" % found) as file:
                if file.read().strip() == name:
                    return os.open(awaited("/dev/" + found), os.O_RDWR | os.O_CLOEXEC)
        time.sleep(0.002)
    raise TimeoutError(name)


def settle(disk: str) -> None:
    """Make a root of the image on `disk` and go there; what is to be written lies in memory."""
    for place in (IMAGE, ROOT):
        os.mkdir(place)
    mount(awaited(disk), IMAGE, "ext4", MS_RDONLY | MS_NOSUID | MS_NODEV)
    mount("root", ROOT, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    for name in sorted(os.listdir(IMAGE)):
        if name not in MADE and name != "lost+found":
            _show(IMAGE + "/" + name, ROOT + "/" + name, is_spread=name in SPREAD)
    shutil.copytree(IMAGE + "/etc", ROOT + "/etc", symlinks=True)
    _make_own()
    shutil.copytree("/toolbox", ROOT + CODE + "/toolbox")
    for name, value in SETTINGS.items():
        with open("/proc/sys/" + name, "w") as file:
            file.write(value)
    os.chdir(ROOT)
    mount(".", "/", "", MS_MOVE)
    os.chroot(".")
    os.chdir("/")


def _show(source: str, target: str, *, is_spread: bool) -> None:
    status = os.lstat(source)
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), target)
    elif not stat.S_ISDIR(status.st_mode):
        shutil.copyfile(source, target)
    else:
        os.mkdir(target, 0o755)
        if is_spread:
            for name in os.listdir(source):
                if name != "tmp":
                    _show(source + "/" + name, target + "/" + name, is_spread=False)
        elif os.listdir(source):
            mount(source, target, "", MS_BIND)


def _make_own() -> None:
    for name, mode in EMPTY.items():
        os.mkdir(ROOT + name, mode)
    for name in ("/var", "/dev", "/proc", "/sys", CODE):
        os.makedirs(ROOT + name, 0o755, exist_ok=True)
    mount("proc", ROOT + "/proc", "proc", MS_NOSUID | MS_NODEV, "hidepid=2")
    mount("dev", ROOT + "/dev", "tmpfs", MS_NOSUID, "mode=755")
    os.umask(0)
    for name, (major, minor) in DEVICES.items():
        os.mknod(ROOT + "/dev/" + name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    os.umask(0o022)
    for name, target in DEVICE_LINKS.items():
        os.symlink(target, ROOT + "/dev/" + name)
    os.mkdir(ROOT + "/dev/pts")
    mount("pts", ROOT + "/dev/pts", "devpts", MS_NOSUID, "newinstance,ptmxmode=0666,mode=620")
    for name, part in IN_MEMORY.items():
        os.makedirs(ROOT + name)
        mount("memory", ROOT + name, "tmpfs", IN_MEMORY_FLAGS, "mode=1777,size=%d%%" % part)


def lay_out(path: str, at: str, *, uid: int, gid: int, is_writable: bool) -> None:
    """Make the workspace in memory, writable at `at`, and show it at `path`."""
    for place in (path, at):
        os.makedirs(place, 0o755, exist_ok=True)
    options = "mode=755,uid=%d,gid=%d,size=%d%%" % (uid, gid, WORKSPACE_PART)
    mount("workspace", at, "tmpfs", IN_MEMORY_FLAGS, options)
    mount(at, path, "", MS_BIND)
    if not is_writable:
        mount("", path, "", MS_REMOUNT | MS_BIND | MS_RDONLY | IN_MEMORY_FLAGS)


def show_read_only(source: str, target: str, *, made: str) -> None:
    """Show `source` at `target` too, where nobody can write; that place is made under `made`."""
    os.makedirs(os.path.dirname(made), 0o755, exist_ok=True)
    if os.path.isdir(source):
        os.makedirs(made, 0o755, exist_ok=True)
    elif not os.path.exists(made):
        os.close(os.open(made, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(source, target, "", MS_BIND)
    mount("", target, "", MS_REMOUNT | MS_BIND | MS_RDONLY | IN_MEMORY_FLAGS)


def close_root() -> None:
    """Let nobody write to the root any more."""
    for name in ("/", "/dev"):
        mount("", name, "", MS_REMOUNT | MS_RDONLY | MS_NOSUID | (MS_NODEV if name == "/" else 0))


__all__ = [
    "CODE",
    "awaited",
    "begin",
    "close_root",
    "lay_out",
    "mount",
    "port",
    "power_off",
    "settle",
    "show_read_only",
]
