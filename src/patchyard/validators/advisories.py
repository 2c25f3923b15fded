"""Known holes of pinned packages, from advisories that lie on this machine; nobody is asked.

They are OSV documents, one file each or in the zip files that osv.dev gives for each ecosystem.
"""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from patchyard.clients.git_files import content_of
from patchyard.clients.reader import NotPlain, plain_file
from patchyard.domain.advisories import Advisory, advisories_of
from patchyard.domain.gate_findings import MESSAGE_CHARS, GateFinding, NothingToGoBy
from patchyard.domain.locked import LOCK_FILES, Locked, locked_in
from patchyard.domain.patch_lines import Lines
from patchyard.toolbox.wire import loaded

DOCUMENT_BYTES = 4 * 1024 * 1024
FOLDER = "advisories"  # in the home


class AdvisoryScanner:
    """contracts.validator.Scanner: one finding a package and advisory."""

    excusing: Sequence[str] = ()
    whole_files = LOCK_FILES

    def __init__(self, home: Path) -> None:
        """Take the home that the advisories lie in; they are read when they are needed."""
        self._folder = home / FOLDER

    def scan(self, lines: Mapping[str, Lines]) -> Sequence[GateFinding]:
        """Return the pinned packages that an advisory means; raises NothingToGoBy without any."""
        pinned = [(path, each) for path, known in lines.items() for each in locked_in(path, known)]
        if not pinned:
            return []
        wanted = {(each.ecosystem, each.package) for _, each in pinned}
        known: dict[tuple[str, str], list[Advisory]] = {}
        has_any = False
        for content in _documents(self._folder):
            for advisory in _read(content):
                has_any = True
                if (key := (advisory.ecosystem, advisory.package)) in wanted:
                    known.setdefault(key, []).append(advisory)
        if not has_any:
            raise NothingToGoBy(f"there are no advisories in {self._folder}")
        return [
            _finding(path, each, advisory)
            for path, each in sorted(pinned, key=lambda pair: (pair[0], pair[1].line))
            for advisory in known.get((each.ecosystem, each.package), ())
            if advisory.means(each.version)
        ]


def _documents(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.suffix == ".json" and path.stat().st_size <= DOCUMENT_BYTES:
            yield content_of(path, DOCUMENT_BYTES)
        elif path.suffix == ".zip":
            yield from _packed(path)


def _packed(path: Path) -> Iterator[bytes]:
    try:
        with (
            plain_file(path, follows=True) as (descriptor, _),
            open(descriptor, "rb", closefd=False) as file,
            zipfile.ZipFile(file) as archive,
        ):
            for entry in archive.infolist():
                if entry.filename.endswith(".json") and entry.file_size <= DOCUMENT_BYTES:
                    yield archive.read(entry)
    except (OSError, NotPlain, zipfile.BadZipFile) as error:
        raise NothingToGoBy(f"{path} cannot be read: {error}") from error


def _read(content: bytes) -> list[Advisory]:
    try:
        return advisories_of(loaded(content))
    except ValueError:
        return []


def _finding(path: str, locked: Locked, advisory: Advisory) -> GateFinding:
    fixed = f"; mended in {', '.join(advisory.fixed[:5])}" if advisory.fixed else ""
    said = f"{locked.package} {locked.version}: {advisory.summary or 'a known hole'}{fixed}"
    return GateFinding(
        path=path,
        line=locked.line,
        rule=advisory.name,
        severity=advisory.severity,
        message=said[:MESSAGE_CHARS],
        subject=f"{locked.ecosystem} {locked.package} {advisory.name}",
    )


__all__ = ["DOCUMENT_BYTES", "FOLDER", "AdvisoryScanner"]
