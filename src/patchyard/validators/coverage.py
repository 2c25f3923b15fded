"""Cobertura XML, as coverage.py, gcovr, JaCoCo's converters, Istanbul and others write it."""

import posixpath
from collections.abc import Mapping

from patchyard.clients.reports import read_xml, whole_number
from patchyard.domain.gate_findings import Reading, UnreadableReport
from patchyard.domain.gates import Gate
from patchyard.domain.report_paths import path_in_tree

MOST_SOURCES = 64


class CoverageReader:
    """contracts.validator.ReportReader: which lines ran."""

    def read(self, report: bytes, gate: Gate, *, root: str) -> Reading:
        """Return the lines of each file, covered or not; raises UnreadableReport."""
        del gate
        found = _Lines()
        read_xml(report, found.start, found.end)
        if not found.is_cobertura:
            raise UnreadableReport("it has no <coverage>: it is no Cobertura XML")
        lines: dict[str, dict[int, bool]] = {}
        for name, known in found.lines.items():
            for path in _places(name, found.sources, root):
                own = lines.setdefault(path, {})
                for line, hit in known.items():
                    own[line] = own.get(line, False) or hit
        return Reading(lines=lines)


class _Lines:
    """Collects the lines of classes, and where their names begin."""

    def __init__(self) -> None:
        self.lines: dict[str, dict[int, bool]] = {}
        self.sources: list[str] = []
        self.is_cobertura = False
        self._file = ""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.is_cobertura = self.is_cobertura or tag == "coverage"
        if tag == "class":
            self._file = attributes.get("filename", "")
        elif tag == "line" and self._file:
            own = self.lines.setdefault(self._file, {})
            number = whole_number(attributes.get("number", ""))
            if number:
                own[number] = own.get(number, False) or attributes.get("hits", "0") != "0"

    def end(self, tag: str, text: str) -> None:
        if tag == "class":
            self._file = ""
        elif tag == "source" and text.strip() and len(self.sources) < MOST_SOURCES:
            self.sources.append(text.strip())


def _places(name: str, sources: list[str], root: str) -> list[str]:
    """Return the paths that a name can mean: it stands below one of the sources."""
    names = [posixpath.join(source, name) for source in sources] or [name]
    return list(dict.fromkeys(filter(None, (path_in_tree(each, root) for each in names))))


__all__ = ["MOST_SOURCES", "CoverageReader"]
