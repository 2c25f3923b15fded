"""Licences that a change brings and that ask the same of all: GPL, LGPL, AGPL and their like."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from patchyard.domain.gate_findings import GateFinding
from patchyard.domain.gates import Severity
from patchyard.domain.patch_lines import Lines

HEAD_LINES = 200  # of a file: a licence stands at its beginning
_FULL = re.compile(
    r"\bGNU\s+(?:(AFFERO|LESSER|LIBRARY)\s+)?GENERAL\s+PUBLIC\s+LICEN[SC]E", re.IGNORECASE
)
_SPDX = re.compile(
    r"SPDX-License-Identifier:\s*[^\n]*?\b([AL]?GPL-[\w.+-]+|EUPL-[\w.]+|SSPL-[\w.]+)"
)
_FIELD = re.compile(r"""["']?licen[sc]e["']?\s*[:=][^\n]*?\b([AL]?GPL[\w.+-]*)""", re.IGNORECASE)


class LicenceScanner:
    """contracts.validator.Scanner: one finding a file."""

    excusing: Sequence[str] = (
        "GENERAL PUBLIC LICENSE",
        *(f"-License-Identifier: {name}" for name in ("GPL", "LGPL", "AGPL")),
    )

    whole_files: Sequence[str] = ()

    def __init__(self, home: Path) -> None:
        """Take the home, of which it needs nothing."""

    def scan(self, lines: Mapping[str, Lines]) -> Sequence[GateFinding]:
        """Return the first line of each file that names such a licence."""
        found = (_first(path, known) for path, known in sorted(lines.items()))
        return [each for each in found if each is not None]


def _first(path: str, lines: Lines) -> GateFinding | None:
    for number in sorted(lines):
        if number > HEAD_LINES:
            return None
        name = _named(lines[number][:2000])
        if name:
            return GateFinding(
                path=path,
                line=number,
                rule="copyleft",
                severity=Severity.ERROR,
                message=f"it is under {name}, and the base has nothing of that kind",
            )
    return None


def _named(text: str) -> str:
    if full := _FULL.search(text):
        return f"the GNU {f'{full[1].title()} ' if full[1] else ''}General Public License"
    short = _SPDX.search(text) or _FIELD.search(text)
    return short[1] if short else ""


__all__ = ["HEAD_LINES", "LicenceScanner"]
