"""Whether the words of a name say that it is one of tests, in languages without one pattern. Pure.

`ShopTests/PriceTests.cs`, `PriceSpec.scala`, `price_unittest.cc`, `test-utils/render.tsx`,
`e2e/login.ts`. Words inside of others, such as `latest` and `testkit`, say nothing.
"""

import re

_WORD = r"(?:tests?|testing|unit[-_]?tests?|e2e)"
_HELP = r"test[-_]?(?:util|helper|support|data|fixture|case|suite|double)s?"
_ENDING = r"(?:\.[a-z0-9]{1,10}){0,2}"
# A folder or a file: the word itself, last before an ending, or beside what helps tests.
_FOLDED = re.compile(
    rf"(?:{_WORD}{_ENDING}|.*[-_.](?:{_WORD}|cy){_ENDING}|{_HELP}{_ENDING}|cypress)"
)
_FILE = re.compile(rf"{_WORD}[-_.].*")  # of a file the word may be the first one
_HUMPS = re.compile(
    r"(?:Tests?[A-Z].*|.*[a-z0-9](?:Tests?|TestCase|TestSuite|UITests)(?:\.\w{1,10})?"
    r"|.*[a-z0-9]Spec\.(?:scala|groovy|kt|hs|swift|cs|fs|rb|purs))"
)
_UNLIKE = re.compile(r".*\.(?:md|rst|txt|adoc|html?)")  # texts for people


def is_of_tests(path: str) -> bool:
    """Whether a folder of a path, or its file, is named for tests."""
    parts = path.split("/")
    if _UNLIKE.fullmatch(parts[-1].lower()):
        return False
    return _FILE.fullmatch(parts[-1].lower()) is not None or any(
        _FOLDED.fullmatch(part.lower()) or _HUMPS.fullmatch(part) for part in parts
    )


__all__ = ["is_of_tests"]
