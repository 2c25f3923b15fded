"""A silenced check says why; of the lines left out of the coverage no reason serves twice."""

import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tree import ROOT, files, report

__all__ = ["findings", "silenced"]

_PRAGMA = re.compile(r"#\s*pragma:\s*no (?:cover|branch)\b[\s:,;-]*(.*)")

_SILENCED = re.compile(r"#\s*(?:noqa|type:\s*ignore)\b")
_WITH_REASON = re.compile(r"#\s*(?:noqa: [A-Z0-9, ]+ - |type: ignore\[[a-z, -]+\]\s+# )\S")


def findings(paths: Iterable[Path]) -> Iterator[str]:
    """Exceptions without a reason, and reasons used more than once."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if match := _PRAGMA.search(line):
                places[match.group(1).strip()].append(f"{path}:{number}")
    for where in places.pop("", []):
        yield f"{where}: no reason beside the pragma"
    for reason, several in places.items():
        if len(several) > 1:
            yield f"the same reason in {', '.join(several)}: {reason}"


def silenced(paths: Iterable[Path]) -> Iterator[str]:
    """Comments that silence ruff or mypy without a reason beside them."""
    for path in paths:
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                is_silence = token.type == tokenize.COMMENT and _SILENCED.search(token.string)
                if is_silence and not _WITH_REASON.search(token.string):
                    yield f"{path}:{token.start[0]}: no reason beside {token.string}"


if __name__ == "__main__":
    found = [*findings(files("src/*.py")), *silenced(files("*.py"))]
    sys.exit(report("pragmas", [each.replace(f"{ROOT}/", "") for each in found]))
