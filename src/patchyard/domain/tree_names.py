"""All names that changed files have in a tree by its folders and links, asked for patterns."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from patchyard.domain.changeset import Change
from patchyard.domain.links import LINK, LinkMap, TreeLinks
from patchyard.domain.name_patterns import NamePatterns, State
from patchyard.domain.names import folded


@dataclass(frozen=True, kw_only=True)
class Match:
    """Why a path fits a pattern."""

    pattern: str
    link: str = ""  # the link by which it has that name; empty: the name is its own


class TreeNames:
    """The changed paths of one result, in a graph of folders and links of base and result.

    A path has a name for each way from the top to it. There may be endlessly many (by a link that
    leads back up), so patterns are followed along the graph instead: a place is visited again only
    where more of a pattern fits than before, and the work is linear in paths and links.
    """

    def __init__(
        self,
        changes: Iterable[Change],
        links: TreeLinks,
        *,
        further: Mapping[str, str] | None = None,
    ) -> None:
        """Take the changes. `further` are names of ours that lead into the tree like links."""
        self._places: dict[str, str] = {}
        self._new_links: dict[str, str] = {}
        for change in changes:
            for path in (change.path, change.old_path):
                if path is None:
                    continue
                self._places[path] = folded(path)
                if LINK in {change.mode, change.old_mode}:
                    self._new_links[folded(path)] = path
        pairs = [*links.before.items(), *links.after.items(), *(further or {}).items()]
        self._links = LinkMap(pairs, top=links.top)
        self._shown = {folded(path): path for path, _ in pairs}
        self._below: dict[str, list[str]] = defaultdict(list)
        self._known = {""}
        for place in (*self._places.values(), *self._links.ways):
            self._add(place)

    @property
    def changed_links(self) -> frozenset[str]:
        """The changed paths that are, or were, links."""
        return frozenset(self._new_links.values())

    def _add(self, place: str) -> None:
        while place not in self._known:
            self._known.add(place)
            folder = place.rpartition("/")[0]
            self._below[folder].append(place)
            place = folder

    def matching(
        self, patterns: NamePatterns, *, has_beginnings: bool = True
    ) -> Mapping[str, Match]:
        """Return the changed paths that have a name which fits.

        A changed link fits where its own name is the beginning of one that fits (unless beginnings
        do not count), and where a link with such a name leads through it: it decides what lies at
        that name.
        """
        walk = _Walk(patterns)
        walk.down(self._own_edges)
        starts = (place.rpartition("/")[0] for place in self._links.ways)
        walk.along(deque(sorted(set(starts))), self._edges)
        found = {
            path: match for path, place in self._places.items() if (match := walk.match(place))
        }
        links = (
            (place, walk.link_match(place, has_beginnings=has_beginnings))
            for place in self._links.ways
        )
        begun = {place: match for place, match in links if match}
        for place, path in self._new_links.items():
            if place in begun:
                found.setdefault(path, begun[place])
        for place, first in self._links.through(sorted(begun)).items():
            if place in self._new_links:
                match = Match(pattern=begun[first].pattern, link=self._shown[first])
                found.setdefault(self._new_links[place], match)
        return found

    def _own_edges(self, place: str) -> Iterator[tuple[str, str, str]]:
        for below in self._below.get(place, ()):
            yield below.rpartition("/")[2], below, ""

    def _edges(self, place: str) -> Iterator[tuple[str, str, str]]:
        """Yield name, place and link of all that a folder's names lead to."""
        yield from self._own_edges(place)
        for below in self._below.get(place, ()):
            if below in self._links.ways:
                for end in self._links.ways[below].ends & self._known:
                    yield below.rpartition("/")[2], end, self._shown[below]


class _Walk:
    """How far the patterns fit at each place."""

    def __init__(self, patterns: NamePatterns) -> None:
        self._patterns = patterns
        self._states: dict[str, State] = {"": patterns.start}
        self._links: dict[str, str] = {}  # by which a place came to fit

    def down(self, edges: Callable[[str], Iterable[tuple[str, str, str]]]) -> None:
        """Go from the top to all below it, by edges of a tree."""
        waiting = [""]
        while waiting:
            place = waiting.pop()
            state = self._states[place]
            for name, end, link in edges(place):
                if self._grows(end, self._patterns.step(state, name), link):
                    waiting.append(end)

    def along(
        self, waiting: deque[str], edges: Callable[[str], Iterable[tuple[str, str, str]]]
    ) -> None:
        """Go on from the waiting places until nothing more fits anywhere."""
        is_waiting = set(waiting)
        while waiting:
            place = waiting.popleft()
            is_waiting.discard(place)
            state = self._states[place]
            for name, end, link in edges(place):
                if (
                    self._grows(
                        end, self._patterns.step(state, name), link or self._links.get(place, "")
                    )
                    and end not in is_waiting
                ):
                    waiting.append(end)
                    is_waiting.add(end)

    def _grows(self, end: str, state: State, link: str) -> bool:
        known = self._states.get(end)
        if known is not None and state <= known:
            return False
        if known is None or not self._patterns.match(known):
            if link:
                self._links[end] = link
            else:
                self._links.pop(end, None)
        self._states[end] = state if known is None or known <= state else known | state
        return True

    def match(self, place: str) -> Match | None:
        """Return why a place fits, if it does."""
        pattern = self._patterns.match(self._states[place])
        return Match(pattern=pattern, link=self._links.get(place, "")) if pattern else None

    def link_match(self, place: str, *, has_beginnings: bool) -> Match | None:
        """Return why a place fits, or could be the beginning of a name that does."""
        begun = self._patterns.begun(self._states[place]) if has_beginnings else ""
        begins = Match(pattern=begun, link=self._links.get(place, "")) if begun else None
        return self.match(place) or begins


__all__ = ["Match", "TreeNames"]
