"""Where the symbolic links of a tree lead, component by component. Reads no file system.

What a link comes to is a set: one place may be a link in the base and a folder in the result, or
two names where case counts and one where it does not. All of them are walked.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from patchyard.domain.errors import LimitReached
from patchyard.domain.names import folded, is_dot_git

LINK = "120000"  # git's mode of a symbolic link
MAX_STEPS = 5_000_000  # of work for one tree; an ordinary link takes about ten
MAX_PLACES = 4096  # that one target comes to, by different links counted apart


class Exit(StrEnum):
    """Where a link must not lead."""

    OUTSIDE = "points out of the tree"
    GIT = "leads into a git directory"


@dataclass(frozen=True, kw_only=True)
class TreeLinks:
    """The links of a base and of a result over it: target by path."""

    top: str = ""  # absolute path of the checkout, where links with absolute targets may lead
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    mixed: frozenset[str] = frozenset()  # paths of links where base or result has something else


NO_LINKS = TreeLinks()

Place = tuple[str, frozenset[str]]  # folded path, and the links that one goes through to it


@dataclass(frozen=True, kw_only=True)
class Way:
    """What one link, or one target, comes to."""

    places: frozenset[Place] = frozenset()
    exits: frozenset[Exit] = frozenset()
    met: frozenset[str] = frozenset()  # places of links that the target itself goes through

    @property
    def ends(self) -> frozenset[str]:
        """The paths in the tree, folded; "" is its top."""
        return frozenset(path for path, _ in self.places)

    def joined(self, other: "Way") -> "Way":
        """Return what both come to together."""
        return Way(
            places=self.places | other.places,
            exits=self.exits | other.exits,
            met=self.met | other.met,
        )


class LinkMap:
    """The ways of all links of one tree, or of several laid over each other."""

    def __init__(
        self,
        links: Iterable[tuple[str, str]],
        *,
        top: str,
        fold: Callable[[str], str] = folded,
        mixed: Container[str] | None = None,
    ) -> None:
        """Take path and target of each link. Raises LimitReached for links beyond measure.

        `fold` makes a place of a path. Only at `mixed` places a link may be something else too;
        None: everywhere.
        """
        self._top = _names(top)
        self._fold = fold
        self._mixed = mixed
        self._steps = 0
        self._targets: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for path, target in links:
            self._targets[fold(path)].append((path, target))
        self.ways: dict[str, Way] = dict.fromkeys(self._targets, Way())
        self._solve()

    def _solve(self) -> None:
        """Walk each link, and again those that go through one of which more became known."""
        waiting = deque(self._targets)
        is_waiting = set(waiting)
        met_by: dict[str, set[str]] = defaultdict(set)
        while waiting:
            place = waiting.popleft()
            is_waiting.discard(place)
            way = self.ways[place]
            for path, target in self._targets[place]:
                way = way.joined(self.walked(path, target))
            for other in way.met:
                met_by[other].add(place)
            if (way.places, way.exits) != (self.ways[place].places, self.ways[place].exits):
                again = met_by[place] - is_waiting
                waiting.extend(again)
                is_waiting |= again
            self.ways[place] = way

    def walked(self, path: str, target: str) -> Way:
        """Return what a link at `path` with this target comes to, over the links of the map."""
        own = self._fold(path)
        names, start = target.split("/"), _parent(own)
        if target.startswith("/"):
            names, start = _names(target), ""
            if names[: len(self._top)] != self._top:
                return Way(exits=frozenset({Exit.OUTSIDE}))
            names = names[len(self._top) :]
        way = Way(places=frozenset({(start, frozenset())}))
        for name in names:
            if name == "..":
                way = _up(way)
            elif is_dot_git(name):
                exits = {Exit.GIT} if way.places else set()
                return replace(way, places=frozenset(), exits=way.exits | exits)
            elif name not in {"", "."}:
                way = self._down(way, self._fold(name), own)
        return way

    def _down(self, way: Way, name: str, own: str) -> Way:
        """Return where one more name leads; no link leads through itself."""
        places: set[Place] = set()
        exits, met = set(way.exits), set(way.met)
        for folder, links in way.places:
            self._count(1 + len(links))
            place = f"{folder}/{name}" if folder else name
            further = self.ways.get(place)
            if further is None or self._mixed is None or place in self._mixed:
                places.add((place, links))
            if further is None:
                continue
            met.add(place)
            if place == own:
                continue
            exits |= further.exits
            for end, those in further.places:
                self._count(1 + len(links) + len(those))
                if own not in those:
                    places.add((end, links | those | {place}))
            if len(places) > MAX_PLACES:
                raise _beyond_measure()
        return Way(places=frozenset(places), exits=frozenset(exits), met=frozenset(met))

    def through(self, places: Iterable[str]) -> dict[str, str]:
        """Return each link that one of `places` goes through, with one of these."""
        found: dict[str, str] = {}
        waiting = deque((place, place) for place in places)
        while waiting:
            place, first = waiting.popleft()
            for met in sorted(self.ways[place].met):
                if met not in found:
                    found[met] = first
                    waiting.append((met, first))
        return found

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise _beyond_measure()


def leaving(links: TreeLinks, changed: Iterable[str]) -> Mapping[str, str]:
    """Return what is wrong with links that leave the tree, by path.

    `changed` are the paths where base or result has a link and the other has not the same. A link
    of the base that leaves only by the change is told at the changed links that it goes through.
    """
    paths = set(changed)
    new = sorted(path for path in paths if path in links.after)
    found: dict[str, str] = {}
    for fold in (_exact, folded) if paths else ():
        mixed = {fold(path) for path in links.mixed}
        pairs = [*links.before.items(), *links.after.items()]
        before = LinkMap(links.before.items(), top=links.top, fold=fold, mixed=mixed)
        both = LinkMap(pairs, top=links.top, fold=fold, mixed=mixed)
        for path in new:
            for way_out in sorted(both.walked(path, links.after[path]).exits):
                found.setdefault(path, f"{way_out}: {links.after[path]!r}")
        astray = {
            fold(path): path
            for path in links.after
            if path not in paths
            and both.ways[fold(path)].exits - before.ways.get(fold(path), Way()).exits
        }
        by_place = {fold(path): path for path in paths}
        for place, first in both.through(sorted(astray)).items():
            if place in by_place:
                message = f"makes the link {astray[first]!r} lead out of the tree or into git"
                found.setdefault(by_place[place], message)
    return found


def _beyond_measure() -> LimitReached:
    return LimitReached(
        "the links of the result lead through one another too often to be followed",
        limit_name="links through links",
        hint="delete links that lead through other links",
    )


def _up(way: Way) -> Way:
    exits = {Exit.OUTSIDE} if any(not path for path, _ in way.places) else set()
    places = frozenset((_parent(path), links) for path, links in way.places if path)
    return replace(way, places=places, exits=way.exits | exits)


def _exact(path: str) -> str:
    return path


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in {"", "."}]


def _parent(place: str) -> str:
    return place.rpartition("/")[0]


__all__ = ["LINK", "NO_LINKS", "Exit", "LinkMap", "TreeLinks", "Way", "leaving"]
