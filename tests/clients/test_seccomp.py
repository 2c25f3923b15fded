"""The filter's making, where the library does not do what was asked."""

import errno
import os
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
    assert {*seccomp.YOUNG} <= {*seccomp.REFUSED, "clone3"}
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
