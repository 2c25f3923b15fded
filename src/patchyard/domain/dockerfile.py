"""What a Dockerfile would have fetched from elsewhere, found before anything is built. Pure.

A container engine pulls images and fetches addresses itself, whatever network a build is given.
So what a build takes from outside of its context is named here; what cannot be followed to the
letter is refused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.toolbox.wire import loaded

DOCKERFILE_BYTES = 1 << 20  # of one at most
LINKS = 16  # that lead to one
NOTHING = "scratch"
ADDRESSES = ("http://", "https://", "git://", "ssh://", "git@")
ESCAPE = re.compile(r"\s*#\s*escape\s*=\s*(?!\\)", re.IGNORECASE)  # lines would go on elsewhere
CONTINUED = re.compile(r"\\[ \t]*$")
INSTRUCTIONS = frozenset(
    {"ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL"}
    | {"MAINTAINER", "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"}
)
ARGUMENT = re.compile(r"""(\w+)(?:=("[^"\\]*"|'[^'\\$]*'|[^\s"'\\]*))?""", re.ASCII)
VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(:[-+])([^{}$]*))?\})", re.ASCII)
REFERENCE = re.compile(r"[a-z0-9][A-Za-z0-9._/:@-]{0,511}", re.ASCII)  # 255, a tag, a digest
WORD = re.compile(r"([^ ]*) ?")
BLANKS = re.compile(r"\s*")
NUMBER = re.compile(r"[0-9]{1,9}")
STAGE = re.compile(r"(\S+)(?:\s+as\s+(\S+))?", re.IGNORECASE)
HERE_DOCUMENT = re.compile(r"<<-?[\"']?[A-Za-z_]|(?:^|\s)\d*<<(?!<)")
CONTROL = re.compile(r"[\x00-\x08\r-\x1f]")  # blank for some, a letter for others
OTHER_BLANK = re.compile(r"[^\S\t\v\f ]")  # parts flags and lists for an engine, names do not
TWO_ESCAPES = re.compile(r"\\\\[ \t]*$")  # goes on for one engine, ends for another
REACHING = frozenset({"ADD", "ARG", "COPY", "FROM", "ONBUILD", "RUN"})
BRINGING = frozenset({"ADD", "COPY", "RUN"})
NOT_LATER = frozenset({"FROM", "MAINTAINER", "ONBUILD"})  # what no trigger may be
MOST_FILLED = 1 << 20  # characters that all variables of one stand for: each may double the last
COPY_HINT = "a build has no network here: commit it, and COPY it"


OWN_IMAGE = "patchyard-devcontainer"
"""What images are called that are built here of the files of one repository."""
IMAGE_ID = re.compile(r"(sha256:)?[0-9a-f]+")  # an engine takes the start of one, too
PREDEFINED = re.compile(r"(TARGET|BUILD)(PLATFORM|OS|ARCH|VARIANT)|(HTTPS?|FTP|NO|ALL)_PROXY")


@dataclass(frozen=True, kw_only=True)
class Needed:
    """An image that has to be there before a build."""

    image: str
    line: int  # that names it, from 1
    is_stage: bool = False  # a stage is called so too, the same or a later one


@dataclass(frozen=True, kw_only=True)
class _Line:
    number: int
    word: str  # the instruction, in capitals
    flags: tuple[str, ...]
    rest: str


def images_needed(text: str, *, path: str, arguments: Mapping[str, str]) -> Sequence[Needed]:
    """Return the images that a build takes, each once. `arguments` are the build's.

    `path` is for messages. The time it takes grows with the text and no faster.

    Raises EnvironmentUnavailable with the line of what reaches out, or cannot be followed.
    """
    return _Reading(path, arguments).whole(text)


def require_own_triggers(triggers: Sequence[str], *, image: str) -> None:
    """Raise EnvironmentUnavailable where an image makes builds on it take what is not theirs.

    `triggers` are what it has of ONBUILD; an engine runs them in each build on it.
    """
    for trigger in triggers:
        _Reading(f"ONBUILD of {image}", {}).trigger(trigger)


def require_others(reference: str) -> None:
    """Raise EnvironmentUnavailable where a repository names an image that was built for another.

    Without a tag, letters and digits of an id could lead to any image that is here.
    """
    if OWN_IMAGE in reference.lower():
        raise EnvironmentUnavailable(
            f"{reference} is none to build on or to run: it was built here for one repository",
            hint="take the image that it was built on",
        )
    if IMAGE_ID.fullmatch(reference):
        raise EnvironmentUnavailable(
            f"{reference} is none to build on or to run: it may be the id of any image",
            hint="name the image with its tag: NAME:TAG",
        )


def _at(number: int, word: str = "") -> _Line:
    return _Line(number=number, word=word, flags=(), rest="")


class _Reading:
    """Reads one Dockerfile; each method one instruction of it."""

    def __init__(self, path: str, arguments: Mapping[str, str]) -> None:
        self._path = path
        self._given = arguments
        self._known: dict[str, str] = {}  # arguments before the first stage
        self._stages = 0
        self._names: set[str] = set()  # of stages, "" for one without
        self._needed: dict[str, int] = {}  # by image, the first line that names it
        self._filled = 0

    def whole(self, text: str) -> Sequence[Needed]:
        for line in self._lines(text):
            self._take(line)
        return [
            Needed(image=image, line=line, is_stage=image in self._names)
            for image, line in self._needed.items()
        ]

    def trigger(self, text: str) -> None:
        """Read what an image's ONBUILD holds, which may be more lines than one."""
        for line in self._lines(text):
            self._later(line)

    def _later(self, line: _Line) -> None:
        """Refuse what a later build would take from outside of itself: its stages are others."""
        if line.word not in INSTRUCTIONS - NOT_LATER:
            raise self._refused(line, f"{line.word[:40]} is not for ONBUILD", "leave it out")
        if any(flag.partition("=")[0] == "--from" for flag in line.flags):
            raise self._refused(
                line, "--from of ONBUILD would be another image in a later build", "COPY it here"
            )
        if line.word in BRINGING:
            self._bringing(line)

    def _take(self, line: _Line) -> None:
        if line.word not in INSTRUCTIONS:
            raise self._refused(line, f"{line.word[:40]} is no instruction", "mend the line")
        if line.word == "ONBUILD":
            self._later(self._line(line.number, line.rest))
        elif line.word == "FROM":
            self._from(line)
        elif line.word == "ARG" and not self._stages:
            self._argument(line)
        elif line.word in BRINGING:
            self._bringing(line)

    def _from(self, line: _Line) -> None:
        if line.flags:
            raise self._refused(line, f"{line.flags[0]} is not for builds here", "leave it out")
        found = STAGE.fullmatch(line.rest)
        if found is None:
            raise self._unclear(line)
        reference = self._expanded(line, found[1].strip("\"'"))
        if not REFERENCE.fullmatch(reference):
            raise self._unclear(line)
        if reference != NOTHING and reference not in self._names:
            self._needed.setdefault(reference, line.number)
        self._stages += 1
        self._names.add((found[2] or "").lower())

    def _argument(self, line: _Line) -> None:
        rest, at = line.rest, 0
        while at < len(rest):
            found = ARGUMENT.match(rest, at)
            if found is None or rest[found.end() : found.end() + 1].strip():
                raise self._unclear(line)
            value = self._expanded(line, (found[2] or "").strip("\"'"))
            self._known[found[1]] = self._given.get(found[1], value)
            at = cast("re.Match[str]", BLANKS.match(rest, found.end())).end()

    def _bringing(self, line: _Line) -> None:
        if HERE_DOCUMENT.search(line.rest):
            raise self._refused(line, "here-documents are not for builds here", "write a file")
        for flag in line.flags:
            name, _, value = flag.partition("=")
            if line.word == "RUN":
                raise self._refused(line, f"{name} is not for builds here", "leave it out")
            if name == "--from":
                self._from_elsewhere(line, value)
        if line.word == "ADD":
            for source in self._sources(line):
                self._require_own(line, source)

    def _from_elsewhere(self, line: _Line, value: str) -> None:
        is_number = NUMBER.fullmatch(value) is not None and int(value) < self._stages
        if is_number or value in self._names:
            return
        if not REFERENCE.fullmatch(value):
            raise self._unclear(line)
        self._needed.setdefault(value, line.number)

    def _sources(self, line: _Line) -> Sequence[str]:
        if not line.rest.startswith("["):
            return [re.sub(r"[\\\"'`]", "", word) for word in line.rest.split()[:-1]]
        try:
            words = loaded(line.rest)
        except ValueError as error:
            raise self._unclear(line) from error
        return [re.sub(r"[\\\"'`]", "", str(word)) for word in words[:-1]]

    def _require_own(self, line: _Line, source: str) -> None:
        """Refuse an address, and what could become one when its variables are filled in."""
        plain, dollar, _ = source.lower().partition("$")
        could_be = dollar and any(address.startswith(plain) for address in ADDRESSES)
        if could_be or plain.startswith(ADDRESSES):
            raise self._refused(line, f"ADD of {source} may reach out", COPY_HINT)

    def _expanded(self, line: _Line, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            if PREDEFINED.fullmatch((found[1] or found[2]).upper()):
                return "$"  # engines differ in what they hold
            known, other = self._known.get(found[1] or found[2], ""), found[4] or ""
            stands_for = (other if known else "") if found[3] == ":+" else known or other
            self._filled += len(stands_for)
            if self._filled > MOST_FILLED:
                raise self._unclear(line)
            return stands_for

        filled = VARIABLE.sub(value, text)
        if "$" in filled or "\\" in filled:
            raise self._unclear(line)
        return filled

    def _lines(self, text: str) -> Iterator[_Line]:
        rows = [row.removesuffix("\r") for row in text.removeprefix("\ufeff").split("\n")]
        begun, first = "", 0
        for number, row in enumerate(rows, start=1):
            if ESCAPE.match(row):
                raise self._refused(_at(number), "another escape is not for builds here", "use \\")
            if CONTROL.search(row):
                raise self._refused(_at(number), "there is a control character", "leave it out")
            if not row.strip() or row.lstrip().startswith("#"):
                continue
            if TWO_ESCAPES.search(row):
                raise self._refused(
                    _at(number), "it is unclear whether it goes on", "end it by one"
                )
            first = first if begun else number
            begun += CONTINUED.sub("", row)
            if not CONTINUED.search(row):
                yield self._line(first, begun)
                begun = ""
        if begun.strip():
            yield self._line(first, begun)

    def _line(self, number: int, text: str) -> _Line:
        word, _, rest = re.sub(r"[\t\v\f ]+", " ", text.strip()).partition(" ")
        if word.upper() in REACHING and OTHER_BLANK.search(text):
            raise self._refused(_at(number), "a blank of another kind", "write spaces")
        flags, at = [], 0
        while rest.startswith("--", at):
            flag = cast("re.Match[str]", WORD.match(rest, at))
            flags.append(flag[1])
            at = flag.end()
            if re.search(r"[\\\"'`]", flags[-1]):
                raise self._unclear(_at(number, word.upper()))
        return _Line(number=number, word=word.upper(), flags=tuple(flags), rest=rest[at:])

    def _refused(self, line: _Line, what: str, hint: str) -> EnvironmentUnavailable:
        return EnvironmentUnavailable(f"{self._path}:{line.number}: {what}", hint=hint)

    def _unclear(self, line: _Line) -> EnvironmentUnavailable:
        what = f"what {line.word} takes cannot be told before the build"
        return self._refused(line, what, "write it plainly: a name, or an ARG with a plain default")


__all__ = [
    "DOCKERFILE_BYTES",
    "LINKS",
    "OWN_IMAGE",
    "Needed",
    "images_needed",
    "require_others",
    "require_own_triggers",
]
