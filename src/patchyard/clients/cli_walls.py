"""The walls around the devcontainers CLI: it reads files that a repository, or a registry, wrote.

It sees the system's programs, itself, and two folders of its caller's. No home, no checkout, no
socket, and a network only where features are to be fetched.
"""

import os
import posixpath
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.bubblewrap import Launch, find_bubblewrap, launch
from patchyard.clients.identity import agent_identity, becoming
from patchyard.clients.toolchains import SYSTEM_PLACES, is_within
from patchyard.clients.walls import SYSTEM_PATH, WANTED, Place, Show, View, with_parents
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.toolbox import surveying

GIVEN, MADE = "/run/features/given", "/run/features/made"
"""Where it reads what it is asked, and where it may write."""

FILE_BYTES = 1024**3  # of one file that it writes
MEMORY_BYTES = 4 * 1024**3  # of each of its processes
PROCESSES = 4096  # of its user
BOUNDED = (
    f"ulimit -c 0; ulimit -f {FILE_BYTES // 512}; ulimit -d {MEMORY_BYTES // 1024};"
    f' ulimit -u {PROCESSES} 2>/dev/null || ulimit -p {PROCESSES}; exec "$0" "$@"'
)
"""A shell's words before it: shells differ in the letter for processes."""

TMP = "tmp"
MODULES = "node_modules"
NAMES = ("/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf")  # how hosts are found
CERTIFICATES = "NODE_EXTRA_CA_CERTS"
PASSED_ON = (
    *("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", CERTIFICATES),
    *("https_proxy", "http_proxy", "no_proxy"),
)
"""What it gets of the engine's variables where it fetches; nothing of them elsewhere."""


@dataclass(frozen=True, kw_only=True)
class Walls:
    """What one run may see."""

    program: str  # path of the CLI
    given: Path
    made: Path
    is_fetching: bool
    environ: Mapping[str, str]  # the engine's


def own_folders(walls: Walls) -> None:
    """Give both folders to the agent's user, who the CLI is under a root engine."""
    identity = agent_identity()
    if not identity.is_switched:
        return
    for top in (walls.given, walls.made):
        for folder, _, names in os.walk(top):
            for name in (".", *names):
                path = Path(folder, name)
                os.chown(path, identity.uid, identity.gid, follow_symlinks=False)


@contextmanager
def walled(walls: Walls, words: Sequence[str]) -> Iterator[Launch]:
    """Yield how the CLI is started with these words. Raises EnvironmentUnavailable.

    Without bubblewrap it is not started at all: it would run with the user's own rights.
    """
    identity = agent_identity()
    network = ("--share-net",) if walls.is_fetching else ()
    with launch(
        _view(walls),
        [*becoming(identity), *("/bin/sh", "-c", BOUNDED), os.path.realpath(walls.program), *words],
        bubblewrap=find_bubblewrap(),
        is_root=identity.is_switched,
        options=["--die-with-parent", *network],
    ) as prepared:
        yield prepared


def variables_of(walls: Walls) -> Mapping[str, str]:
    """Return all its variables: no home of the user's, no token, no engine."""
    path = dict.fromkeys((posixpath.dirname(_node(walls)), *SYSTEM_PATH))
    own = {"PATH": ":".join(path), "HOME": f"{MADE}/home", "TMPDIR": f"{MADE}/{TMP}"}
    passed_on = PASSED_ON if walls.is_fetching else ()
    further = {name: walls.environ[name] for name in passed_on if name in walls.environ}
    return {**own, **further, "LANG": "C.UTF-8"}


def _node(walls: Walls) -> str:
    found = shutil.which("node", path=walls.environ.get("PATH"))
    return os.path.realpath(found or "/usr/bin/node")


def _view(walls: Walls) -> View:
    found = surveying.survey(dict(WANTED))
    rows = [*found["system"], *found["etc"]]
    places = [_row(*row) for row in rows]
    places += [Place(target=name, show=Show.MASKED) for name in found["masked"]]
    places += [Place(target=name, show=Show.EMPTY, mode=0o1777) for name in ("/tmp", "/var/tmp")]  # noqa: S108 - new ones, in memory
    places += [
        Place(target="/proc", show=Show.PROCESSES),
        Place(target="/dev", show=Show.DEVICES),
        *_accounts(),
        *(_file(name) for name in _wanted_files(walls)),
        *(_file(name) for name in _programs(walls.program, _node(walls))),
        Place(target=GIVEN, show=Show.READ_ONLY, source=str(walls.given)),
        Place(target=MADE, show=Show.WRITABLE, source=str(walls.made)),
    ]
    ordered = {place.target: place for place in places}
    return View(places=with_parents(ordered), home=f"{MADE}/home")


def _row(target: str, show: str, source: str) -> Place:
    mode = 0o644 if show == Show.COPY else 0o755
    return Place(target=target, show=Show(show), source=source, mode=mode)


def _file(path: str) -> Place:
    return Place(target=path, show=Show.READ_ONLY, source=os.path.realpath(path))


def _accounts() -> Sequence[Place]:
    identity = agent_identity()
    texts = {
        "passwd": f"agent:x:{identity.uid}:{identity.gid}:agent:{MADE}/home:/bin/sh\n",
        "group": f"agent:x:{identity.gid}:\n",
    }
    return [
        Place(target=f"/etc/{name}", show=Show.MADE_UP, source=text, mode=0o644)
        for name, text in texts.items()
    ]


def _wanted_files(walls: Walls) -> Sequence[str]:
    """Return what a fetch needs: how names are found, and certificates of the user's own."""
    if not walls.is_fetching:
        return ()
    named = (*NAMES, walls.environ.get(CERTIFICATES, ""))
    return [path for path in named if path.startswith("/") and os.path.isfile(path)]  # noqa: PTH113 - one that is closed to us is none


def _programs(program: str, node: str) -> Sequence[str]:
    """Return what has to be shown of the CLI and of Node beside the system's places."""
    wanted = (_package(os.path.realpath(program)), node)
    return [path for path in wanted if not any(is_within(path, each) for each in SYSTEM_PLACES)]


def _package(real: str) -> str:
    """Return the folder of modules that a program lies in; else the program alone."""
    before, found, _ = real.partition(f"/{MODULES}/")
    return f"{before}/{MODULES}" if found else real


def outside(walls: Walls, path: str) -> Path:
    """Return where something lies out here that the CLI names by its path.

    Raises EnvironmentUnavailable for what does not lie in the folders of its own: what it says is
    read with the user's rights.
    """
    for top, own in ((GIVEN, walls.given), (MADE, walls.made)):
        if is_within(posixpath.normpath(path), top):
            found = Path(os.path.realpath(f"{own}{path[len(top) :]}"))
            if found.is_relative_to(own.resolve()):
                return found
    raise EnvironmentUnavailable(
        f"the devcontainers CLI names {path!r}, which is none of its own files",
        hint="look at what the features hold",
    )


__all__ = [
    "BOUNDED",
    "FILE_BYTES",
    "GIVEN",
    "MADE",
    "MEMORY_BYTES",
    "PASSED_ON",
    "PROCESSES",
    "Walls",
    "outside",
    "own_folders",
    "variables_of",
    "walled",
]
