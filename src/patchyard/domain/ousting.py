"""Added files that a language takes in the place of a module of its own, or of its test tools.

A folder whose files are found by their bare names (`PYTHONPATH=src`, `-Ilib`, a class path) comes
before the places of what is installed. Pure.
"""

import re
import sys
from collections.abc import Collection, Iterable

from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.domain.held import LINK, TOOLS

_MODULES = (
    sys.stdlib_module_names
    | TOOLS
    | {
        *("behave", "colorama", "exceptiongroup", "flake8", "green", "hypothesis", "isort"),
        *("nose", "nose2", "nox", "py", "pycodestyle", "pyflakes", "robot", "sybil", "tomli"),
        *("tox", "twisted", "typing_extensions", "ward"),
    }
)
_ENDINGS = (".py", ".pyc", ".so")
# Of other languages, in whatever folder: test tools that programs name by these paths, and headers
# of C that a folder of headers brings in the place of the compiler's own.
_OTHERS = re.compile(
    r"(?:.*/)?(?:"
    r"(?:org/(?:junit|hamcrest|mockito|assertj|testng|opentest4j|scalatest|specs2|spockframework)"
    r"|junit/(?:framework|runner|extensions|textui)|kotlin/test|io/kotest|io/mockk"
    r"|com/google/common/truth)/.*\.(?:java|kt|scala|groovy|class)"
    r"|lib/(?:minitest|rspec|test/unit|test-unit|power_assert|simplecov|mocha)(?:/.*)?(?:\.rb)?"
    r"|PHPUnit/.*\.php|(?:busted|luassert)(?:/.*)?\.lua"
    r"|(?:gtest|gmock|catch2|doctest|boost/test|CUnit|CppUTest|criterion)/.*\.(?:h|hh|hpp|ipp)"
    r"|(?:catch|catch_amalgamated|doctest|check|cmocka|unity|munit|greatest|criterion|minunit"
    r"|assert|errno|math|setjmp|signal|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|time"
    r"|unistd)\.(?:h|hpp))"
    r"|(?:(?:.*/)?lib/)?(?:Test2?|TAP|App/Prove)(?:/.*)?\.pm",
)


def may_oust(change: Change) -> bool:
    """Whether a change brings a file that may oust a module; `ousts` knows, by its folder."""
    is_new = change.status == ChangeStatus.ADDED or change.old_path is not None
    return is_new and (
        _OTHERS.fullmatch(change.path) is not None or any(True for _ in _roots(change))
    )


def ousts(change: Change, names: Collection[str], added: Collection[str]) -> bool:
    """Whether an added file ousts a module, beside the `names` of the base and all `added` ones.

    A folder that is a package is no place of bare names: `shop/json.py` is `shop.json`. It is one
    where the base says so, or where the base has nothing in it.
    """
    return _OTHERS.fullmatch(change.path) is not None or any(
        not root or not _is_package(root, names, added) for root in _roots(change)
    )


def _is_package(root: str, names: Collection[str], added: Collection[str]) -> bool:
    first, below = f"{root}/__init__.py", f"{root}/"
    return first in names or (first in added and _is_new(names, below))


def _is_new(names: Collection[str], below: str) -> bool:
    return not any(name.startswith(below) for name in names)


def _roots(change: Change) -> Iterable[str]:
    """Yield the folders from which a file of Python would be a module of such a name."""
    path = change.path
    parts = path.split("/")
    is_link = change.mode == LINK
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        module = part.partition(".")[0]
        is_module = path.endswith(_ENDINGS) or (is_link and is_last and part == module)
        if is_module and module in _MODULES and (is_last or part == module):
            yield "/".join(parts[:number])


__all__ = ["may_oust", "ousts"]
