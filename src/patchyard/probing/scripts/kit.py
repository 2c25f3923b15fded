"""What each script works with: its word to the prober, system calls by name, and looks at /proc."""

from __future__ import annotations

import ctypes
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Iterator, TypeVar

    Given = dict[str, Any]
    T = TypeVar("T")

CANARY = re.compile(rb"canary-[0-9a-f]{24}")
CLONE_NEWUSER = 0x10000000
NUMBERS = {  # x86_64, aarch64
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clone": (56, 220),
    "clone3": (435, 435),
    "finit_module": (313, 273),
    "fsopen": (430, 430),
    "getpid": (39, 172),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "process_vm_readv": (310, 270),
    "ptrace": (101, 117),
    "setns": (308, 268),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
LIBC = ctypes.CDLL(None, use_errno=True)


def carry_out(attack: Callable[[Given], None], given: Given) -> None:
    """Run one attack; say that it began, and what refused it."""
    print("began:" + given["token"], flush=True)
    try:
        attack(given)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it was, it is told
        print("refused: %s: %s" % (type(error).__name__, error), flush=True)


def done(given: Given, note: str = "") -> None:
    """Say that it worked; for what nobody can see from outside."""
    print("done:%s %s" % (given["token"], note), flush=True)


def show(path: str) -> None:
    """Print what a file holds."""
    with open(path, "rb") as file:
        tell(file.read(65536))


def tell(data: bytes) -> None:
    """Print the canaries in some bytes."""
    for found in CANARY.findall(data):
        print(found.decode("ascii"), flush=True)


def call(name: str, *arguments: Any) -> int:
    """Make a system call. Raises OSError."""
    number = NUMBERS[name][os.uname().machine == "aarch64"]
    result: int = LIBC.syscall(ctypes.c_long(number), *map(_wide, arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    return result


def _wide(argument: Any) -> Any:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def granted(given: Given, name: str, *arguments: Any) -> None:
    """Make a system call and say so when the kernel carried it out."""
    done(given, "%s gave %d" % (name, call(name, *arguments)))


def in_child(given: Given, work: Callable[[], None]) -> None:
    """Do `work` in a process of its own and say so when that ended well."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except OSError as error:
            print("refused: %s" % error, flush=True)
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1] == 0:
        done(given)


def processes() -> Iterator[int]:
    """Yield the number of every process that can be seen, but our own."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            yield int(name)


def victims(given: Given) -> Iterator[int]:
    """Yield the bait process as it is numbered here; never anybody else."""
    for pid in {*processes(), given["victim"]["pid"]}:
        words = look("/proc/%d/cmdline" % pid)
        is_unknown = not os.path.exists("/proc/%d" % pid)
        if b":".join(mark.encode() for mark in given["victim"]["mark"]) in words or is_unknown:
            yield pid


def look(path: str) -> bytes:
    """Return the content of a file, nothing where that is refused."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def first(action: Callable[[T], object], candidates: Iterable[T]) -> None:
    """Do it with each, and go on after one that is refused; where all were, raise the last."""
    refused: Exception = FileNotFoundError("there was nothing to try")
    has_worked = False
    for each in candidates:
        try:
            action(each)
            has_worked = True
        except OSError as error:
            refused = error
    if not has_worked:
        raise refused


__all__ = [
    "CANARY",
    "CLONE_NEWUSER",
    "LIBC",
    "NUMBERS",
    "call",
    "carry_out",
    "done",
    "first",
    "granted",
    "in_child",
    "look",
    "processes",
    "show",
    "tell",
    "victims",
]
