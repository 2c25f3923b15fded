"""What a source file defines, by rules for its lines, and the words in it. Pure; parses nothing.

Every rule begins at a place that a plain search finds and looks at a bounded piece of one line, so
that the time is linear in the file's size whatever it holds.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

FILE_BYTES = 512 * 1024  # a larger one is data, or made by a program
LINE_BYTES = 240  # what of a line is looked at
PROBED_BYTES = 8192  # in which a NUL means that it is no text (as git decides)
MINIFIED = 400  # bytes a line on average, above which nobody has written it
DEFINITIONS = 2000  # of one file

MAPPED: Mapping[str, str] = {
    ".py": "python",
    ".pyi": "python",
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts"), "javascript"),
    ".go": "go",
    ".rs": "rust",
    ".java": "java",
    **dict.fromkeys((".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), "c"),
}
"""Languages that there are rules for, by the ending of the file's name."""


class Definition(NamedTuple):
    """One name that a file defines."""

    name: str
    kind: str  # the keyword that says so: def, class, func; a method without one is a `method`
    line: int
    is_inner: bool  # it stands below something else: a method, a nested function


Found = tuple[int, str, bytes, bool]  # position, kind, name, is_inner
Rule = Callable[[bytes], Iterator[Found]]

NAME = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]{0,99}+")
_LETTERS = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_" + bytes(range(128, 256))
)
WORDS = bytes(byte if byte in _LETTERS else 32 for byte in range(256))


def language_at(path: str) -> str:
    """Return the language whose rules a file is read by; empty for none."""
    _, dot, ending = path.rpartition(".")
    return MAPPED.get(dot + ending.lower(), "")


def is_readable(data: bytes) -> bool:
    """Whether somebody may have written this: no binary, nothing minified, not too large."""
    if len(data) > FILE_BYTES or b"\0" in data[:PROBED_BYTES]:
        return False
    return len(data) < PROBED_BYTES or data.count(b"\n") * MINIFIED > len(data)


def words_in(data: bytes) -> set[bytes]:
    """Return every word of a file that could be a name, those in texts and comments too."""
    return set(data.translate(WORDS).split())


def text_of(counted: Mapping[bytes, int]) -> bytes:
    """Return words and how often each was found, as a line of each."""
    return b" ".join(counted) + b"\n" + " ".join(map(str, counted.values())).encode()


def counted_of(text: bytes) -> Counter[bytes]:
    """Return what `text_of` was made of. Raises ValueError where it is not of that form."""
    words, _, counts = text.partition(b"\n")
    return Counter(dict(zip(words.split(), map(int, counts.split()), strict=True)))


def definitions_in(data: bytes, language: str) -> Sequence[Definition]:
    """Return what a file in `language` defines, in its order; nothing where there are no rules."""
    text = b"\n" + (data.replace(b"\r\n", b"\n") if b"\r" in data else data)
    found = sorted({each for rule in RULES.get(language, ()) for each in rule(text)})
    made: list[Definition] = []
    line, at = 0, 0
    for position, kind, name, is_inner in found[:DEFINITIONS]:
        line += text.count(b"\n", at, position)
        at = position
        made.append(Definition(name.decode("utf-8", "replace"), kind, line, is_inner))
    return made


def _by_keyword(keyword: str, before: bytes, *, after: bytes = b"", only_top: bool = False) -> Rule:
    """Return the rule of a keyword that a name follows.

    `before` is what may stand between the line's indentation and it, `after` between it and the
    name. `only_top`: what is indented does not count.
    """
    wanted = keyword.encode() + b" "
    ahead = re.compile(rb"([ \t]*+)" + before)
    between = re.compile(rb"[ \t]*+" + after)

    def rule(text: bytes) -> Iterator[Found]:
        at = text.find(wanted)
        while at >= 0:
            start = text.rfind(b"\n", max(0, at - LINE_BYTES), at) + 1
            led = ahead.fullmatch(text, start, at) if start else None
            if led is not None:
                skipped = between.match(text, at + len(wanted), at + LINE_BYTES)
                name = NAME.match(text, skipped.end()) if skipped else None
                if name is not None and not (only_top and led[1]):
                    yield start, keyword, name[0], bool(led[1])
            at = text.find(wanted, at + len(wanted))

    return rule


def _by_brace(head: re.Pattern[bytes], brace: bytes, *, kind: str) -> Rule:
    """Return the rule of lines that end with what opens a body, and no keyword names the kind."""

    def rule(text: bytes) -> Iterator[Found]:
        at = text.find(brace)
        while at >= 0:
            start = text.rfind(b"\n", max(0, at - LINE_BYTES), at) + 1
            led = head.match(text, start, at) if start else None
            if led is not None and (name := _called(led[2])) is not None:
                yield start, kind, name, bool(led[1])
            at = text.find(brace, at + 1)

    return rule


CONTROL = frozenset(
    b"assert await case catch define defined delete do else for foreach function if in new return"
    b" sizeof switch synchronized throw try typeof using when while with yield".split()
)


def _called(head: bytes) -> bytes | None:
    """Return the name in front of a parenthesis; None where something else is called or tested."""
    words = head.translate(WORDS).split()
    if not words or words[0] in CONTROL or words[-1] in CONTROL or not NAME.fullmatch(words[-1]):
        return None
    led, _, rest = head.rstrip().rpartition(words[-1])
    return None if rest or led.endswith((b".", b">")) else words[-1]


def _constants(text: bytes) -> Iterator[Found]:
    """Find what Python modules hold under names in capitals."""
    for found in CONSTANT.finditer(text):
        yield found.start() + 1, "const", found[1], False


CONSTANT = re.compile(rb"\n([A-Z][A-Z0-9_]{2,60}+)(?=[ \t]{0,4}[:=][^=])")
_JS = rb"(?:export[ ]|default[ ]|declare[ ]|abstract[ ]|async[ ]|const[ ])*+"
_JS_TOP = rb"(?:export[ ]|declare[ ])*+"
_RUST = (
    rb"(?:pub(?:\([a-z: ]{1,40}\))?[ ]|async[ ]|unsafe[ ]|const[ ]|default[ ]"
    rb"|extern \"C\"[ ])*+"
)
_JAVA = rb"(?:public |private |protected |static |final |abstract |sealed |strictfp )*+"
_C = rb"(?:typedef |static |template ?<[^>\n]{0,80}+>[ \t]*+)*+"
_JS_METHOD = re.compile(
    rb"([ \t]++)((?:async |static |public |private |protected |readonly |get |set |override |\*)*+"
    rb"[#\w\x80-\xff]{1,100}+)(?:<[^>\n]{0,80}+>)?+\("
)
_JAVA_METHOD = re.compile(rb"([ \t]++)([\w@][^\n(;=\"+{}]{1,200}+)\(")
_C_FUNCTION = re.compile(rb"()([A-Za-z_][^\n(;=#\"{}]{1,200}+)\(")

RULES: Mapping[str, tuple[Rule, ...]] = {
    "python": (_by_keyword("def", rb"(?:async[ \t]++)?+"), _by_keyword("class", rb""), _constants),
    "javascript": (
        *(_by_keyword(word, _JS) for word in ("class", "interface", "enum")),
        _by_keyword("function", _JS, after=rb"\*?[ ]?"),
        *(_by_keyword(word, _JS_TOP, only_top=True) for word in ("const", "type")),
        _by_brace(_JS_METHOD, b"{\n", kind="method"),
    ),
    "go": (
        _by_keyword("func", rb"", after=rb"(?:\([^()\n]{0,120}+\)[ ]?)?+"),
        _by_keyword("type", rb""),
    ),
    "rust": tuple(
        _by_keyword(word, _RUST)
        for word in ("fn", "struct", "enum", "trait", "mod", "macro_rules!")
    ),
    "java": (
        *(_by_keyword(word, _JAVA) for word in ("class", "interface", "enum", "record")),
        _by_brace(_JAVA_METHOD, b"{\n", kind="method"),
    ),
    "c": (
        *(_by_keyword(word, _C) for word in ("struct", "class", "enum", "#define")),
        _by_brace(_C_FUNCTION, b"{\n", kind="function"),
        _by_brace(_C_FUNCTION, b"\n{", kind="function"),
    ),
}

__all__ = [
    "DEFINITIONS",
    "FILE_BYTES",
    "LINE_BYTES",
    "MAPPED",
    "MINIFIED",
    "NAME",
    "PROBED_BYTES",
    "RULES",
    "WORDS",
    "Definition",
    "Rule",
    "counted_of",
    "definitions_in",
    "is_readable",
    "language_at",
    "text_of",
    "words_in",
]
