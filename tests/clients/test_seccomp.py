"""The filter's making, where the library does not do what was asked."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from patchyard.clients import seccomp
from patchyard.domain.errors import EnvironmentUnavailable


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """The program is kept for the process; these tests make others."""
    seccomp.filter_program.cache_clear()
    yield
    seccomp.filter_program.cache_clear()


class Library(SimpleNamespace):
    """libseccomp with answers of our choice; it counts the rules it was given."""

    def __init__(self, *, context: int = 7, number: int = 1, added: int = 0, said: int = 0) -> None:
        super().__init__()
        self.rules: list[tuple[Any, ...]] = []
        self.released: list[int] = []
        self._context, self._number, self._added, self._said = context, number, added, said

    def seccomp_init(self, _action: int) -> int:
        return self._context

    def seccomp_syscall_resolve_name(self, _name: bytes) -> int:
        return self._number

    def seccomp_rule_add_array(self, *rule: Any) -> int:
        self.rules.append(rule)
        return self._added

    def seccomp_export_bpf(self, _context: int, descriptor: int) -> int:
        os.write(descriptor, b"program")
        return self._said

    def seccomp_release(self, context: int) -> None:
        self.released.append(context)

    def seccomp_attr_set(self, *_rule: Any) -> int:
        return 0


def made_with(monkeypatch: pytest.MonkeyPatch, library: Library) -> bytes:
    monkeypatch.setattr(seccomp, "load_library", lambda: library)
    return seccomp.filter_program()


def test_calls_that_this_machine_never_had_are_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    foreign = Library(added=-errno.EDOM)
    assert made_with(monkeypatch, foreign) == b"program"
    assert len(foreign.rules) > len(seccomp.REFUSED)


def test_calls_younger_than_the_library_are_refused_by_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = Library(number=-1)
    assert made_with(monkeypatch, old) == b"program"
    assert {rule[2] for rule in old.rules} == set(seccomp.YOUNG.values())
    assert {*seccomp.YOUNG} <= {*seccomp.REFUSED, *seccomp.UNSUPPORTED}
    assert old.released == [7]


@pytest.mark.parametrize(
    ("library", "said"),
    [
        (Library(context=0), "does not know this kind of machine"),
        (Library(added=-errno.EINVAL), "refused the rule"),
        (Library(said=-errno.EIO), "could not write the filter"),
    ],
)
def test_a_wall_that_cannot_be_built_is_refused(
    monkeypatch: pytest.MonkeyPatch, library: Library, said: str
) -> None:
    with pytest.raises(EnvironmentUnavailable, match=said):
        made_with(monkeypatch, library)


# Puts the filter of its input on, and tells by which error each call is answered. No descriptor is
# one: without the filter that is what is wrong with them all.
TRYING = """
import ctypes, errno, json, sys

libc = ctypes.CDLL(None, use_errno=True)
program = sys.stdin.buffer.read()


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))


def put_on():
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(Program(len(program) // 8, program))) == 0


def said(name, *words):
    assert getattr(libc, name)(*words) == -1, name
    return errno.errorcode[ctypes.get_errno()]


def all_said():
    no_offset, length = ctypes.c_void_p(0), ctypes.c_size_t(1)
    return {
        "a copy": said("copy_file_range", -1, no_offset, -1, no_offset, length, 0),
        "a clone": said("ioctl", -1, 0x40049409, 0),
        "a clone of a part": said("ioctl", -1, ctypes.c_ulong(0x4020940D), 0),
        "a comparison": said("ioctl", -1, ctypes.c_ulong(0xC0189436), 0),
        "another request": said("ioctl", -1, 0x40049410, 0),
        "opened": said("openat", -1, b"x", 0o1000000),
        "opened as usual": said("openat", -1, b"x", 0o2000000),
        "opened by a record": said("syscall", 437, -1, b"x", bytes(24), 24),
        "set later": said("fcntl", -1, 4, 0o1004000),
        "set to another": said("fcntl", -1, 4, 0o4000),
        "its lock": said("fcntl", -1, 1033, 0o1000000),
    }


before = all_said()
put_on()
print(json.dumps([before, all_said()]))
"""


def test_reads_that_leave_no_time_of_access_are_refused_and_their_like_are_not() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", TRYING],
        input=seccomp.filter_program(),
        stdout=subprocess.PIPE,
        check=True,
    )
    before, after = json.loads(ran.stdout)
    assert {*before.values()} == {"EBADF"}
    assert {way: name for way, name in after.items() if name != "EBADF"} == {
        "a copy": "ENOSYS",
        "a clone": "ENOTSUP",
        "a clone of a part": "ENOTSUP",
        "a comparison": "ENOTSUP",
        "opened": "EPERM",
        "opened by a record": "ENOSYS",
        "set later": "EPERM",
    }
