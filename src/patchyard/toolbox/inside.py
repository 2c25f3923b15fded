"""Which paths of an environment are its own, and where a path of an image really lies.

A repository says where its workspace appears, an image holds links: neither may bring files of
theirs to a place that the environment itself is run from.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Generator, Iterable, Optional, TypeVar

    Found = TypeVar("Found")
    Asked = Optional[str]  # where a link leads, absolute; empty: no link; None: nothing is there

IN_MEMORY = ("/tmp", "/var/tmp")  # noqa: S108 - in a container, where they are its own
PLACE = "/run/patchyard"  # of the toolbox and what runs it
KEPT = ("/proc", "/sys", "/dev", PLACE, "/etc/group", "/etc/ld.so.preload", "/etc/passwd")
"""What is ours or the kernel's in a container; an empty ld.so.preload keeps an image's libraries
out of the toolbox."""
LOADING = ("GCONV_", "GLIBC_", "LD_", "LOCPATH", "MALLOC_", "PYTHON")
"""How variables begin that bring code or settings of an image into a program."""
MOST_LINKS = 40  # as Linux follows on one way


def normal(path: str) -> str:
    """Return an absolute path without empty parts, `.` and `..`; two slashes are one."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def is_below(path: str, place: str) -> bool:
    """Whether `path` is `place` or lies below it. Both absolute and normal."""
    return path == place or path.startswith(place.rstrip("/") + "/")


def stands_in(path: str, *, kept: Iterable[str], held: Iterable[str] = ()) -> bool:
    """Whether what is mounted at `path` would take the place of a part of the environment.

    At, above and below the places `kept` nothing else may lie; at and above the places `held`.
    """
    path = normal(path)
    above = any(is_below(place, path) for place in (*kept, *held))
    return path == "/" or above or any(is_below(path, place) for place in kept)


def stands_in_container(target: str) -> bool:
    """Whether what is mounted at `target` would take the place of a part of any container."""
    return stands_in(target, kept=KEPT, held=IN_MEMORY)


def resolved(path: str) -> Generator[str, Asked, str]:
    """Yield each path whose link is to be told, from the top; return where `path` really lies.

    Raises RuntimeError for links that go in a circle.
    """
    ahead = normal(path).split("/")[1:]
    here, links = "", 0
    while ahead:
        there = here + "/" + ahead.pop(0)
        told = yield there
        if told is None:
            return normal("/".join([there, *ahead]))
        if not told or normal(told) == there:  # Podman says so of what is no link
            here = there
            continue
        links += 1
        if links > MOST_LINKS:
            raise RuntimeError("the links on the way to %s go in a circle" % path)
        here, ahead = "", [*normal(told).split("/")[1:], *ahead]
    return here or "/"


def misplaced(
    shown: Iterable[str], in_memory: Iterable[str] = ()
) -> Generator[str, Asked, list[str]]:
    """Yield as `resolved` does for all that is mounted; return what a link of the image moves.

    Another place than one of ours is fine: `/workspaces` may be a link. A folder in memory may not
    hide what is `shown` either. Raises RuntimeError.
    """
    found = []
    places = {}
    for target in shown:
        place = places[target] = yield from resolved(target)
        is_moved = place != normal(target)
        if is_moved and (stands_in(target, kept=KEPT) or stands_in(place, kept=KEPT)):
            found.append("%s is %s there" % (target, place))
    for target in in_memory:
        place = yield from resolved(target)
        if place != normal(target) and _covers(target, place, places):
            found.append("%s is %s there" % (target, place))
    return found


def _covers(target: str, place: str, shown: dict[str, str]) -> bool:
    """Whether a folder in memory that really lies at `place` takes something out of sight.

    Engines mount what has more parts in its name later: so it lies on top.
    """
    return stands_in(place, kept=KEPT) or any(
        is_below(place, there)
        or (is_below(there, place) and normal(target).count("/") >= normal(name).count("/"))
        for name, there in shown.items()
    )


def bare(image: str) -> dict[str, Any]:
    """Return what a container of an image alone is made with, which is asked and never started."""
    return {"Image": image, "Entrypoint": ["/never"], "NetworkDisabled": True}


def answered(asking: Generator[str, Asked, Found], link: Callable[[str], Asked]) -> Found:
    """Return what `resolved` or `misplaced` finds, where `link` tells of each path."""
    try:
        path = next(asking)
        while True:
            path = asking.send(link(path))
    except StopIteration as done:
        found: Found = done.value
        return found


def loader_variables(variables: Iterable[str]) -> list[str]:
    """Return the names of those that a loader or a Python obeys, of `NAME=value`."""
    names = (each.partition("=")[0] for each in variables)
    return sorted({name for name in names if name.startswith(LOADING)})


__all__ = [
    "IN_MEMORY",
    "KEPT",
    "LOADING",
    "MOST_LINKS",
    "PLACE",
    "answered",
    "bare",
    "is_below",
    "loader_variables",
    "misplaced",
    "normal",
    "resolved",
    "stands_in",
    "stands_in_container",
]
