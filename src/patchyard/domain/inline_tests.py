"""Tests beside the code that they test: which lines of a source file belong to one. Pure.

It goes by the first words of lines and by their indentation, and parses nothing: a block that it
takes for a test is looked at by a person, and stops nothing.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from posixpath import splitext

LONGEST = 1000  # characters of a line that are looked at

# An example in documentation: Python's, Elixir's and Haskell's, behind a mark of a comment.
# Spaces are bounded between what may be left out, so that no line is read many times over.
_MARKS = r"(?:[#*%;]+|//[/!]?|--+)?\s{0,20}(?:[rb]?\"\"\"|''')?\s{0,20}"
_EXAMPLE = re.compile(rf"{_MARKS}(?:>>>|iex(?:\(\d+\))?>|prop>)(?:\s|$)")
_BLANK = re.compile(rf"{_MARKS}$")
_FENCE = re.compile(r"//[/!]\s{0,20}(?:```|~~~)")  # of an example in Rust
_HEAD = re.compile(r"(?:async\s+def|def|class)\b")
_CLOSES = re.compile(r"(?:[})\]]|end\b)")
_ENDS_AT_ONCE = re.compile(r";$|;\s*//|\{.*\}\)?$|\bend$")

_C = (
    r"(?:TEST(?:_[FP])?|TYPED_TEST(?:_P)?|TEST_CASE(?:_METHOD)?|SCENARIO|BOOST_\w+_TEST_CASE"
    r"|START_TEST|DOCTEST_TEST_CASE)\s*\(|(?:static\s+)?(?:void|int|bool)\s+test_?\w*\s*\("
)
_SCRIPT = r"(?:describe|it|test|suite|bench)(?:\.\w+)*\s*\(|.*\bimport\.meta\.vitest\b"
_JVM = r"@(?:\w+\.)*(?:Test|ParameterizedTest|RepeatedTest|TestFactory|Nested|Property)\b"
# What begins a test, by the ending of the file.
_BEGINS: Mapping[str, str] = {
    ".py": r"(?:async\s+)?def\s+(?:test|load_tests\b|pytest_)"
    r"|class\s+(?:Test\w*|\w+\([^)]*\bTestCase\b)"
    r"|@(?:pytest\.(?:mark|fixture)|given|parametrize)\b",
    ".rs": r"#!?\[(?:\w+::)*(?:test|rstest|case|test_case|quickcheck|proptest)\b"
    r"|#\[cfg\((?:all|any)?\(?[^\]]*\btest\b|proptest!",
    ".zig": r"(?:comptime\s+)?test\s*(?:\"|\w+\s*\{|\{)",
    ".rb": r"(?:def\s+test_|(?:describe|context|it|test|specify)\s+[\"']|class\s+\w+\s*<.*\bTest)",
    ".exs": r"(?:test|describe|property)\s+\"",
    ".ex": r"(?:test|describe|property)\s+\"",
    ".clj": r"\(deftest\b",
    ".jl": r"@test(?:set)?\b",
    ".ml": r"let%(?:test|expect_test|test_unit)\b",
    ".r": r"(?:testthat::)?test_that\(",
    ".swift": r"(?:@Test\b|(?:\w+\s+)*func\s+test\w*\s*\(|class\s+\w+\s*:\s*XCTestCase)",
    ".cs": r"\[(?:\w+\.)*(?:Fact|Theory|Test|TestCase|TestMethod|DataTestMethod)\b",
    ".fs": r"\[<(?:\w+\.)*(?:Fact|Theory|Test|TestCase|Property)\b",
    ".php": r"(?:#\[(?:\w+\\)*Test\b|(?:public\s+)?function\s+test\w*\s*\()",
    ".dart": r"(?:test|group|testWidgets)\(",
    ".lua": r"(?:describe|it)\s*\(",
    **dict.fromkeys((".java", ".kt", ".kts", ".scala", ".groovy"), _JVM),
    **dict.fromkeys((".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".cu", ".m"), _C),
    **dict.fromkeys(
        (".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx", ".coffee", ".vue"), _SCRIPT
    ),
}  # fmt: skip
_BEGIN = {ending: re.compile(f"(?:{form})") for ending, form in _BEGINS.items()}
_NOTHING = re.compile(r"(?!)")
_BY_INDENTATION = frozenset({".py", ".clj", ".ml", ".coffee"})


@dataclass(kw_only=True)
class _Block:
    """A test that began, and has not ended."""

    indent: int
    is_headed: bool  # in Python: whether its `def` or `class` has come


def touches_inline(path: str, lines: Sequence[str], changed: Collection[int]) -> bool:
    """Whether one of the `changed` lines, 1 for the first, belongs to a test in a source file."""
    ending = splitext(path)[1].lower()
    begin = _BEGIN.get(ending, _NOTHING)
    block: _Block | None = None
    is_example = is_fenced = False
    for number, whole in enumerate(lines, 1):
        line = whole[:LONGEST].rstrip()
        text = line.lstrip()
        is_edge = ending == ".rs" and _FENCE.match(text) is not None
        is_fenced = is_fenced != is_edge
        is_example = _EXAMPLE.match(text) is not None or (is_example and not _BLANK.match(text))
        is_last = False
        if block is not None and ending in _BY_INDENTATION:
            block = None if _is_left(line, block) else block
        elif block is not None:
            is_last = _is_last(line, block)
        if block is None and begin.match(text):
            is_headed = ending != ".py" or _HEAD.match(text) is not None
            block = _Block(indent=_indent(line), is_headed=is_headed)
            is_last = _ENDS_AT_ONCE.search(text) is not None
        if number in changed and (is_edge or is_fenced or is_example or block is not None):
            return True
        if is_last and ending not in _BY_INDENTATION:
            block = None
    return False


def _is_left(line: str, block: _Block) -> bool:
    """Whether a line stands behind a block that ends with its indentation."""
    text = line.lstrip()
    if not text or _indent(line) > block.indent or _CLOSES.match(text):
        return False
    was_headed = block.is_headed
    block.is_headed = was_headed or _HEAD.match(text) is not None
    return was_headed


def _is_last(line: str, block: _Block) -> bool:
    """Whether a line ends a block that closes with a bracket or a word."""
    text = line.lstrip()
    if not text or _indent(line) > block.indent:
        return False
    return _CLOSES.match(text) is not None or _ENDS_AT_ONCE.search(text) is not None


def _indent(line: str) -> int:
    wide = line.expandtabs(8)
    return len(wide) - len(wide.lstrip())


__all__ = ["LONGEST", "touches_inline"]
