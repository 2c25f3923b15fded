"""The ways of writing a secret that are recognised in a text. Pure.

In any case of its letters: as it is, in base 64 at each of its three alignments, in hexadecimal
digits; and any character of these percent-encoded, escaped as in JSON or JavaScript, or as an HTML
entity, all of them or only some, up to four times over. What else a text can do to a secret
(reverse it, encrypt it, spread it) is not recognised.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache

LEAST_BYTES = 6  # of a secret; shorter ones stand in too much that is not them
PERCENT = rb"%(?:25){0,3}(?P<percent>{hexadecimal})"
BACKSLASH = (
    rb"\\\\{0,7}(?:(?:u00|x)(?P<hexadecimal>{hexadecimal})|u\{0{0,4}(?P<braced>{hexadecimal})\}"
    rb"|(?P<octal>{octal})|(?P<plain>{plain}))"
)
ENTITY = (
    rb"&(?:amp;){0,3}(?:#x0{0,6}(?P<entity>{hexadecimal})|#0{0,6}(?P<decimal>{decimal})"
    rb"|(?P<name>{name}));"
)
ESCAPES = {b"%": PERCENT, b"\\": BACKSLASH, b"&": ENTITY}
"""One escaped character in a text of small letters, by what it begins with.

Each of its own, and with that character first: then a search runs over the rest without a trial.
"""
PLACE = re.compile(rb"\{[a-z]+\}")
UNFINISHED = re.compile(
    rb"(?:%(?:25){0,3}[0-9a-f]?|\\{1,8}(?:u0{0,2}[0-9a-f]?|u\{0{0,4}[0-9a-f]{0,2}|x[0-9a-f]?"
    rb"|[01][0-7]?)?|&(?:amp;){0,3}(?:#x?[0-9a-f]{0,9}|[a-z]{0,24}))\Z"
)
"""The beginning of one, at a text's end."""
LONGEST_ESCAPE = 48  # bytes
CUT = -1  # the text ends before it is clear


@cache
def names_of_characters() -> Mapping[bytes, int]:
    """Return HTML's names of ASCII characters, in small letters."""
    from html.entities import html5  # noqa: PLC0415 - 4 ms, of each command that opens a home

    return {
        name.lower().removesuffix(";").encode(): ord(value.lower())
        for name, value in html5.items()
        if len(value) == 1 and value.isascii()
    }


class SecretForms:
    """Finds secrets in texts."""

    def __init__(self, secrets: Iterable[bytes]) -> None:
        told = {secret for secret in secrets if len(secret) >= LEAST_BYTES}
        found = {form for secret in told for form in _forms(secret)}
        self._forms = sorted(found, key=lambda form: (-len(form), form))
        self._begun: dict[int, list[tuple[bytes, int]]] = {}  # by a form's first character
        self._amid: dict[bytes, list[tuple[bytes, int]]] = {}  # by two characters: where they stand
        for form in self._forms:
            self._begun.setdefault(form[0], []).append((form, 0))
            for at in range(1, len(form)):
                self._amid.setdefault(form[at - 1 : at + 1], []).append((form, at))
        self._escapes = _escapes(set(b"".join(self._forms)))

    def found(self, text: bytes) -> tuple[list[tuple[int, int]], int]:
        """Return where secrets stand, and from where on one could be that the text cuts off."""
        if not self._forms:
            return [], len(text)
        folded = text.lower()
        spans = [span for form in self._forms for span in _whole(folded, form)]
        held = self._cut_off(folded)
        for start, form, at, done in self._escaped(folded):
            end = self._end(folded, at, form, done)
            if end == CUT:
                held = min(held, start)
            elif end:
                spans.append((start, end))
        return sorted(spans), held

    def _escaped(self, folded: bytes) -> Iterator[tuple[int, bytes, int, int]]:
        """Yield where a form can begin whose first escaped character stands there.

        With it, the form, where the escape ends, and how many characters are done by then.
        """
        for opening, pattern in self._escapes.items():
            for match in pattern.finditer(folded) if opening in folded else ():
                at, character = match.start(), _meant(match)
                pair = folded[at - 1 : at] + bytes((character,))
                begun, amid = self._begun.get(character, ()), self._amid.get(pair, ())
                for form, before in (*begun, *amid):
                    if before <= at and folded.startswith(form[:before], at - before):
                        yield at - before, form, match.end(), before + 1

    def _end(self, folded: bytes, at: int, form: bytes, done: int) -> int:
        """Return where the rest of a form ends that begins at `at`; 0: it is not there; or CUT."""
        for wanted in form[done:]:
            pattern = self._escapes.get(folded[at : at + 1])
            match = pattern.match(folded, at) if pattern else None
            if match is not None and _meant(match) == wanted:
                at = match.end()
            elif at == len(folded) or (pattern and UNFINISHED.match(folded, at)):
                return CUT
            elif folded[at] == wanted:
                at += 1
            else:
                return 0
        return at

    def _cut_off(self, folded: bytes) -> int:
        """Return where a form begins whose rest, or the rest of its next escape, is not there."""
        unfinished = UNFINISHED.search(folded, max(0, len(folded) - LONGEST_ESCAPE))
        ends = [len(folded), *([unfinished.start()] if unfinished else [])]
        return min([*ends, *(_begin(folded, form, end) for end in ends for form in self._forms)])


@lru_cache(maxsize=32)
def secret_forms(secrets: tuple[bytes, ...]) -> SecretForms:
    """Return what finds these secrets."""
    return SecretForms(secrets)


def replaced(text: str, secrets: Sequence[str], by: str) -> str:
    """Return a text with `by` in the place of each secret."""
    coded = text.encode("utf-8", "surrogatepass")
    forms = secret_forms(tuple(secret.encode("utf-8", "surrogatepass") for secret in secrets))
    pieces, at = [], 0
    for start, end in forms.found(coded)[0]:
        if start >= at:
            pieces += [coded[at:start], by.encode()]
        at = max(at, end)
    return b"".join([*pieces, coded[at:]]).decode("utf-8", "surrogatepass")


def _forms(secret: bytes) -> Iterator[bytes]:
    """Yield a secret's forms in small letters; of base 64 what the secret alone decides."""
    yield secret.lower()
    yield secret.hex().encode()
    for shift in range(3):
        first, last = -(-shift * 4 // 3), (shift + len(secret)) * 4 // 3
        coded = b64encode(bytes(shift) + secret)[first:last].lower()
        yield coded
        yield coded.replace(b"+", b"-").replace(b"/", b"_")


def _escapes(characters: set[int]) -> Mapping[bytes, re.Pattern[bytes]]:
    """Return what finds escapes of these characters, small letters, and of no others."""
    codes = sorted({code for each in characters for code in (each, bytes((each,)).upper()[0])})
    marks = bytes(code for code in codes if code < 128 and not chr(code).isalnum())
    names = [name for name, code in names_of_characters().items() if code in characters]
    told = {
        b"{hexadecimal}": _one_of(b"%02x" % code for code in codes),
        b"{octal}": _one_of(b"%03o" % code for code in codes),
        b"{decimal}": b"|".join(b"%d" % code for code in codes),
        b"{plain}": b"|".join(map(re.escape, (bytes((mark,)) for mark in marks))) or b"(?!)",
        b"{name}": b"|".join(names) or b"(?!)",
    }
    return {
        opening: re.compile(PLACE.sub(lambda place: told[place[0]], text))
        for opening, text in ESCAPES.items()
    }


def _one_of(numbers: Iterable[bytes]) -> bytes:
    """Return a pattern of these numbers; with the last digits in a class it is tried sooner."""
    lasts: dict[bytes, bytes] = {}
    for number in numbers:
        lasts[number[:-1]] = lasts.get(number[:-1], b"") + number[-1:]
    return b"|".join(b"%b[%b]" % each for each in lasts.items())


def _whole(folded: bytes, form: bytes) -> Iterator[tuple[int, int]]:
    at = folded.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = folded.find(form, at + 1)


def _meant(match: re.Match[bytes]) -> int:
    """Return the character that an escape stands for, a letter as a small one."""
    kind = match.lastgroup or ""
    text = match[kind]
    if kind == "name":
        return names_of_characters()[text]
    if kind == "plain":
        return text[0]
    return bytes((int(text, {"decimal": 10, "octal": 8}.get(kind, 16)),)).lower()[0]


def _begin(folded: bytes, form: bytes, end: int) -> int:
    """Return where a form begins that is cut off at `end`; `end` itself where none does."""
    at = folded.find(form[:1], max(0, end - len(form) + 1), end)
    while at >= 0 and not form.startswith(folded[at:end]):
        at = folded.find(form[:1], at + 1, end)
    return at if at >= 0 else end


__all__ = [
    "BACKSLASH",
    "CUT",
    "ENTITY",
    "ESCAPES",
    "LEAST_BYTES",
    "LONGEST_ESCAPE",
    "PERCENT",
    "PLACE",
    "UNFINISHED",
    "SecretForms",
    "names_of_characters",
    "replaced",
    "secret_forms",
]
