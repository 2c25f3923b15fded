"""The user's own compilers and interpreters: found from PATH and known layouts, shown read-only.

A pure search over a `Disk`, and a cache of it. Never the home itself, a place of credentials,
or what a repository names.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from posixpath import basename, dirname, isabs, join, normpath

from patchyard.clients.disk import Disk, LocalDisk
from patchyard.clients.layouts import COLLECTIONS, KEYED, LAYOUTS, LOCAL_PARTS, PARTS, WHOLE
from patchyard.domain.environment import Mount

SYSTEM_PLACES = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
"""Visible in every sandbox; what lies there needs no mount."""

UNFIT_PLACES = ("/proc", "/sys", "/dev", "/run", "/etc", "/boot")

CREDENTIALS = (
    *(".ssh", ".aws", ".azure", ".config", ".docker", ".gnupg", ".kube", ".netrc", ".npmrc"),
    *(".pypirc", ".git-credentials", ".gitconfig", ".password-store", ".pki", ".mozilla"),
    *(".thunderbird", ".cargo/credentials", ".cargo/credentials.toml", ".m2/settings.xml"),
    *(".gradle/gradle.properties", ".gem/credentials", ".terraform.d", ".claude", ".codex"),
    *(".local/share/keyrings", ".local/share/uv/credentials", ".local/state", ".bash_history"),
)
"""Below the home: no mount may be one of these, lie in one or hold one."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Whose toolchains are searched, and what must stay out of sight."""

    search_path: str  # the user's PATH
    home: str
    owners: frozenset[int]  # who may own what is shown: the user and root
    checkout: str = ""
    private: tuple[str, ...] = ()  # the engine's own state


@dataclass(frozen=True, kw_only=True)
class Toolchains:
    """What was found."""

    mounts: tuple[Mount, ...] = ()
    path: tuple[str, ...] = ()  # directories for PATH, in the user's order
    variables: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)  # place to reason
    hidden: tuple[str, ...] = ()  # files below the mounts that nobody may read


def is_within(path: str, place: str) -> bool:
    """Whether `path` is `place` or lies below it. Both absolute and normal."""
    return path == place or path.startswith(place.rstrip("/") + "/")


def find_toolchains(surroundings: Surroundings, disk: Disk) -> Toolchains:
    """Search PATH for what can be shown. Does the same for the same facts."""
    search = _Search(surroundings, disk)
    for entry in dict.fromkeys(surroundings.search_path.split(":")):
        if isabs(entry):
            search.add_entry(normpath(entry))
    return search.found()


class ToolchainFinder:
    """Searches once for each checkout, and again only when a folder of PATH has changed."""

    def __init__(self, *, search_path: str, home: str, private: tuple[str, ...] = ()) -> None:
        self._search_path = search_path
        self._home = home
        self._private = private
        self._known: dict[str, tuple[tuple[int, ...], Toolchains]] = {}

    def find(self, checkout: str) -> Toolchains:
        """Return what may be shown beside `checkout`."""
        stamp = tuple(_changed_ns(entry) for entry in self._search_path.split(":"))
        known = self._known.get(checkout)
        if known is not None and known[0] == stamp:
            return known[1]
        found = find_toolchains(self._surroundings(checkout), LocalDisk())
        self._known[checkout] = (stamp, found)
        return found

    def exposure(self, place: str, checkout: str) -> str:
        """Return what of the user's own a mount of `place` would give away, "" for nothing."""
        disk = LocalDisk()
        return _Search(self._surroundings(checkout), disk).exposure(disk.resolve(place))

    def _surroundings(self, checkout: str) -> Surroundings:
        return Surroundings(
            search_path=self._search_path,
            home=self._home,
            owners=frozenset({0, os.geteuid()}),
            checkout=checkout,
            private=self._private,
        )


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - a dozen times a start
    except OSError:
        return 0


class _Search:
    """One search: what is shown so far."""

    def __init__(self, surroundings: Surroundings, disk: Disk) -> None:
        self._around = surroundings
        self._disk = disk
        self._mounts: dict[str, str] = {}  # target to source
        self._path: list[str] = []
        self._variables: dict[str, str] = {}
        self._skipped: dict[str, str] = {}
        self._home = disk.resolve(surroundings.home)
        self._secret = tuple(disk.resolve(join(self._home, name)) for name in CREDENTIALS)

    def found(self) -> Toolchains:
        """Return the result, without mounts that lie inside others."""
        shown = {
            target: source
            for target, source in sorted(self._mounts.items())
            if not any(other != target and is_within(target, other) for other in self._mounts)
        }
        return Toolchains(
            mounts=tuple(Mount(source=s, target=t) for t, s in shown.items()),
            path=tuple(dict.fromkeys(self._path)),
            variables=self._variables,
            skipped=self._skipped,
            hidden=tuple(sorted(self._hidden_in(shown))),
        )

    def _hidden_in(self, shown: Mapping[str, str]) -> set[str]:
        """Return the settings with keys below what is shown, wherever it appears."""
        settings = (
            self._disk.resolve(join(place, name))
            for source in set(shown.values())
            for place in self._installations_in(source)
            for name in KEYED
            if self._disk.exists(join(place, name))
        )
        return {
            target + real.removeprefix(source)
            for real in settings
            for target, source in shown.items()
            if is_within(real, source)
        }

    def _installations_in(self, source: str) -> Iterator[str]:
        """Yield the place itself, and what it collects, two levels down at most."""
        yield source
        level = [source] if basename(source) in COLLECTIONS else [join(source, "envs")]
        for _ in range(2):
            level = [join(place, name) for place in level for name in self._disk.names(place)]
            yield from level
            level = [place for place in level if not self._disk.exists(join(place, "bin"))]

    def add_entry(self, entry: str) -> None:
        """Show one directory of PATH, with whatever it needs."""
        real = self._disk.resolve(entry)
        if not self._disk.is_directory(real):
            return
        if _is_in(real, SYSTEM_PLACES):
            self._path.append(entry if _is_in(entry, SYSTEM_PLACES) else real)
            if is_within(real, "/usr/local") or is_within(real, "/opt"):
                self._follow_links(real)
            return
        reason = self._objection(real)
        if reason:
            self._skipped[entry] = reason
            return
        if not self._show_layout(entry):
            self._show_prefix(entry)
        if self._is_shown(entry):
            self._path.append(entry)
            self._path += self._versions_behind(entry)
            self._follow_links(real)

    def _show_layout(self, entry: str) -> bool:
        """Show a version manager's parts, if `entry` belongs to one."""
        for layout in LAYOUTS:
            for suffix in layout.entries:
                root = entry.removesuffix("/" + suffix)
                if root == entry or not self._has(root, layout.markers):
                    continue
                for name in layout.shown:
                    self._show(join(root, name))
                if layout.variable:
                    self._variables.setdefault(layout.variable, root)
                if "bin/cargo" in layout.markers:
                    self._show_rustup()
                return True
        return False

    def _show_rustup(self) -> None:
        root = join(self._around.home, ".rustup")
        if self._has(root, ("toolchains",)):
            self._show(join(root, "toolchains"))
            self._show(join(root, "settings.toml"))
            self._show(join(root, "update-hashes"))  # its proxies insist that this exists
            self._variables.setdefault("RUSTUP_HOME", root)

    def _show_prefix(self, entry: str) -> None:
        """Show the installation that the directory `entry` belongs to, or it alone."""
        whole = self._installation(entry)
        if whole:
            self._show_installation(whole)
            return
        prefix = dirname(entry)
        if self._disk.resolve(prefix) == join(self._home, ".local"):
            for name in LOCAL_PARTS:
                self._show(join(prefix, name))
        elif basename(entry) == "bin" and not is_within(self._home, self._disk.resolve(prefix)):
            for name in PARTS:
                self._show(join(prefix, name))
        self._show(entry)

    def _show_installation(self, prefix: str) -> None:
        self._show(prefix)
        for line in self._disk.text(join(prefix, "pyvenv.cfg")).splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "home" and isabs(value.strip()):
                self._need(normpath(value.strip()))

    def _need(self, directory: str) -> None:
        """Show what something shown stands on; it does not enter PATH."""
        for place in dict.fromkeys((directory, self._disk.resolve(directory))):
            if not _is_in(place, SYSTEM_PLACES) and not self._is_shown(place):
                prefix = dirname(place)
                self._show(self._installation(place) or prefix)

    def _installation(self, directory: str) -> str:
        """Return the nearest prefix above `directory` that is an installation, or ""."""
        prefix = directory
        for _ in range(6):
            prefix = dirname(prefix)
            if prefix in {"/", ""} or is_within(self._home, self._disk.resolve(prefix)):
                return ""
            if any(self._disk.exists(join(prefix, marker)) for marker in WHOLE):
                return prefix
            if any(n.startswith("python3") for n in self._disk.names(join(prefix, "include"))):
                return prefix
        return ""

    def _follow_links(self, directory: str) -> None:
        """Show what links in a directory of programs lead to: an installation, else the file."""
        for name in self._disk.links(directory):
            target = self._disk.resolve(join(directory, name))
            if _is_in(target, SYSTEM_PLACES) or self._is_shown(target):
                continue
            self._show(self._installation(dirname(target)) or target)

    def _versions_behind(self, entry: str) -> list[str]:
        """Return the newest installs of mise: its shims read a file below ~/.config."""
        root = dirname(entry)
        if basename(root) != "mise" or basename(entry) != "shims":
            return []
        latest = (
            join(root, "installs", tool, "latest", "bin")
            for tool in self._disk.names(join(root, "installs"))
        )
        return [place for place in latest if self._disk.is_directory(place)]

    def _show(self, place: str) -> None:
        """Mount `place` at its real path, and where it is called otherwise, there too."""
        real = self._disk.resolve(place)
        if not self._disk.exists(real) or _is_in(real, SYSTEM_PLACES):
            return
        reason = self._objection(real)
        if reason:
            self._skipped[place] = reason
            return
        if is_within(real, "/nix/store"):
            real = place = "/nix/store"
        self._mounts[real] = real
        if place != real and not _is_in(place, (*SYSTEM_PLACES, *UNFIT_PLACES)):
            self._mounts.setdefault(place, real)

    def _objection(self, real: str) -> str:
        """Return why the place must not be shown, "" when it may."""
        if _is_in(real, UNFIT_PLACES):
            return "it is no place for programs"
        if not self._disk.is_trusted(real, self._around.owners):
            return "somebody else owns it or may write to it"
        return self.exposure(real)

    def exposure(self, real: str) -> str:
        """Return what of the user's own the place holds or lies in, "" for nothing."""
        around = self._around
        touches = partial(_overlaps, real)
        rules = (
            (is_within(self._home, real), "it is the home or holds it"),
            (any(map(touches, self._secret)), "it touches a place of credentials"),
            (around.checkout and touches(around.checkout), "it touches the checkout"),
            (any(map(touches, around.private)), "it touches Patchyard's own state"),
        )
        return next((reason for is_broken, reason in rules if is_broken), "")

    def _has(self, root: str, names: Iterable[str]) -> bool:
        return all(self._disk.exists(join(root, name)) for name in names)

    def _is_shown(self, place: str) -> bool:
        return any(is_within(place, target) for target in self._mounts)


def _is_in(path: str, places: Iterable[str]) -> bool:
    return any(is_within(path, place) for place in places)


def _overlaps(one: str, other: str) -> bool:
    return is_within(one, other) or is_within(other, one)


__all__ = [
    "CREDENTIALS",
    "SYSTEM_PLACES",
    "Surroundings",
    "ToolchainFinder",
    "Toolchains",
    "find_toolchains",
    "is_within",
]
