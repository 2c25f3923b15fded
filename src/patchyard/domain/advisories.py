"""Advisories about packages in the OSV form, and whether a version is one of those meant. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchyard.domain.gates import Severity
from patchyard.domain.versions import version_key

_SEVERITIES = {
    "CRITICAL": Severity.ERROR,
    "HIGH": Severity.ERROR,
    "LOW": Severity.NOTE,
}
SUMMARY_CHARS = 200

Range = Sequence[tuple[str, str]]  # events in order: introduced, fixed or last_affected; version


@dataclass(frozen=True, kw_only=True)
class Advisory:
    """What one advisory says of one package."""

    name: str  # its id, such as GHSA-… or PYSEC-…
    ecosystem: str  # PyPI, npm, crates.io, Go, Maven …
    package: str  # as `package_name` has it
    summary: str = ""
    severity: Severity = Severity.WARNING
    versions: frozenset[str] = frozenset()
    ranges: tuple[Range, ...] = ()

    def means(self, version: str) -> bool:
        """Whether it is about that version."""
        return version in self.versions or any(_is_in(version, each) for each in self.ranges)

    @property
    def fixed(self) -> tuple[str, ...]:
        """Versions that mend it."""
        events = [event for each in self.ranges for event in each]
        return tuple(version for kind, version in events if kind == "fixed")


def package_name(ecosystem: str, name: str) -> str:
    """Return a package's name as all who mean it write it."""
    return re.sub(r"[-_.]+", "-", name).lower() if ecosystem == "PyPI" else name


def advisories_of(document: Any) -> list[Advisory]:
    """Return what an OSV document says of each package; nothing for what is none, or withdrawn."""
    if not isinstance(document, Mapping) or document.get("withdrawn"):
        return []
    found = []
    for affected in _list(document.get("affected")):
        package = _mapping(_mapping(affected).get("package"))
        ecosystem = str(package.get("ecosystem") or "").partition(":")[0]
        if not ecosystem or not package.get("name"):
            continue
        said = _mapping(document.get("database_specific")).get("severity")
        found.append(
            Advisory(
                name=str(document.get("id") or "")[:100],
                ecosystem=ecosystem,
                package=package_name(ecosystem, str(package["name"])),
                summary=str(document.get("summary") or "")[:SUMMARY_CHARS],
                severity=_SEVERITIES.get(str(said).upper(), Severity.WARNING),
                versions=frozenset(map(str, _list(_mapping(affected).get("versions")))),
                ranges=tuple(_ranges(_mapping(affected))),
            )
        )
    return found


def _ranges(affected: Mapping[str, Any]) -> list[Range]:
    ranges = [_mapping(each) for each in _list(affected.get("ranges"))]
    return [
        tuple(
            (str(kind), str(version))
            for event in _list(each.get("events"))
            for kind, version in _mapping(event).items()
        )
        for each in ranges
        if each.get("type") != "GIT"  # of commits, which no lock file names
    ]


def _is_in(version: str, events: Range) -> bool:
    """Whether a version lies in a range: after an `introduced`, before its end."""
    here = version_key(version)
    if here is None:
        return False
    is_in = False
    for kind, said in events:
        there = version_key(said)
        if there is None:
            continue
        if kind == "introduced" and (said == "0" or here >= there):
            is_in = True
        elif (kind == "fixed" and here >= there) or (kind == "last_affected" and here > there):
            is_in = False
    return is_in


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


__all__ = ["SUMMARY_CHARS", "Advisory", "advisories_of", "package_name"]
