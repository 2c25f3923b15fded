"""Patterns over the components of paths, asked one component at a time.

So a pattern can follow a path through links, where one file has many names or endlessly many.
"""

import fnmatch
import functools
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchyard.domain.names import caseless

ANY = "**"  # as a component: any number of components
MOST_KNOWN = 8_192  # steps that one set of patterns remembers; a tree may have 200,000 names
MAX_STARS = 6  # of a glob; with more of them it is read as if none crossed a folder
State = frozenset[tuple[int, int]]  # pattern, and how many of its components fit so far


@dataclass(frozen=True, kw_only=True)
class NamePattern:
    """Components that a name has to have one after the other."""

    shown: str  # as its author wrote it
    components: tuple[str, ...]  # fnmatch patterns of folded names
    is_deep: bool = True  # whether all below such a name fits too


def below_any(pattern: str) -> NamePattern:
    """Return a pattern that holds in any folder; `X/*` stands for `X` and all below it."""
    names = tuple(pattern.removesuffix("/*").lower().split("/"))
    return NamePattern(shown=pattern, components=(ANY, *names), is_deep=pattern.endswith("/*"))


def from_top(glob: str) -> Iterable[NamePattern]:
    """Yield what a glob of a user says: from the top, its stars reaching over folders."""
    names = caseless(re.sub(r"(/\**)+\Z", "", glob)).split("/")
    choices = [_choices(name) for name in names]
    if glob.count("*") > MAX_STARS:
        choices = [[(name,)] for name in names]
    for choice in itertools.product(*choices):
        yield NamePattern(shown=glob, components=tuple(itertools.chain(*choice)))


def _choices(name: str) -> list[tuple[str, ...]]:
    """Return the ways to read a component whose stars may reach over folders."""
    found: list[tuple[str, ...]] = [("",)]
    for part in re.split(r"(\*+)", name):
        is_star = part.startswith("*")
        ways = [(*way[:-1], way[-1] + ("*" if is_star else part)) for way in found]
        over = [(*way[:-1], way[-1] + "*", ANY, "*") for way in found] if is_star else []
        found = [*ways, *over]
    return found


class NamePatterns:
    """Many patterns, followed at once."""

    def __init__(self, patterns: Sequence[NamePattern]) -> None:
        """Take the patterns; where several fit, the first one counts."""
        self._patterns = patterns
        self._literal: dict[str, list[int]] = defaultdict(list)
        self._wild: list[tuple[re.Pattern[str], int]] = []
        self._states: dict[State, State] = {}  # each once, however many names lead to it
        self._known = functools.lru_cache(maxsize=MOST_KNOWN)(self._stepped)
        begun: set[tuple[int, int]] = set()
        for number, pattern in enumerate(patterns):
            if pattern.components[0] != ANY:
                begun |= self._open(number, 0)
            elif _is_literal(pattern.components[1]):
                self._literal[pattern.components[1]].append(number)
            else:
                self._wild.append((_compiled(pattern.components[1]), number))
        self._any_wild = re.compile("|".join(e.pattern for e, _ in self._wild) or "(?!)")
        self.start: State = frozenset(begun)

    def step(self, state: State, name: str) -> State:
        """Return what fits after one more component, folded; git reads a backslash as a slash."""
        for part in name.split("\\"):
            state = self._known(state, part)
        return state

    @property
    def remembered(self) -> int:
        """The number of steps that are remembered, MOST_KNOWN at most."""
        return self._known.cache_info().currsize

    def match(self, state: State) -> str:
        """Return the first pattern that fits, as its author wrote it; empty for none."""
        whole = [number for number, at in state if at == len(self._patterns[number].components)]
        return self._patterns[min(whole)].shown if whole else ""

    def begun(self, state: State) -> str:
        """Return a pattern of which the first names fit; empty for none."""
        numbers = sorted(number for number, at in state if self._is_begun(number, at))
        return self._patterns[numbers[0]].shown if numbers else ""

    def _is_begun(self, number: int, at: int) -> bool:
        names = self._patterns[number].components[:at]
        own = names[1:] if names and names[0] == ANY else names
        return bool(own) and not {ANY, "*"} & set(own)

    def _stepped(self, state: State, name: str) -> State:
        found: set[tuple[int, int]] = set()
        for number, at in state:
            components = self._patterns[number].components
            if at == len(components):
                found |= {(number, at)} if self._patterns[number].is_deep else set()
            elif components[at] == ANY:
                found |= self._open(number, at)
            elif _fits(components[at], name):
                found |= self._open(number, at + 1)
        for number in self._literal.get(name, ()):
            found |= self._open(number, 2)
        for expression, number in self._wild if self._any_wild.match(name) else ():
            if expression.match(name):
                found |= self._open(number, 2)
        if len(self._states) >= MOST_KNOWN:
            self._states.clear()
        state = frozenset(found)
        return self._states.setdefault(state, state)

    def _open(self, number: int, at: int) -> set[tuple[int, int]]:
        """Return the places in a pattern where it may go on: behind `**` too."""
        components = self._patterns[number].components
        found = {(number, at)}
        while at < len(components) and components[at] == ANY:
            at += 1
            found.add((number, at))
        return found


def _fits(component: str, name: str) -> bool:
    return component == name if _is_literal(component) else bool(_compiled(component).match(name))


def _is_literal(component: str) -> bool:
    return not any(character in component for character in "*?[")


@functools.lru_cache(maxsize=1024)
def _compiled(component: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(component))


__all__ = ["ANY", "NamePattern", "NamePatterns", "State", "below_any", "from_top"]
