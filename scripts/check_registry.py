"""Each adapter that the registry names is run by its seam's contract suite, `tests/contracts`.

A suite runs an adapter when it names its class, or is parametrised over the registry's table.
"""

import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from tree import ROOT, report

__all__ = ["findings", "tables"]

SUITES = ROOT / "tests/contracts"


def tables(registry: ModuleType) -> dict[str, dict[str, str]]:
    """The registry's tables: names to `module:Class`, by the table's own name."""
    found: dict[str, dict[str, str]] = {}
    for name, value in vars(registry).items():
        if name.isupper() and isinstance(value, Mapping):
            found[name] = {str(key): str(path) for key, path in value.items()}
    return found


def findings(named: Mapping[str, Mapping[str, str]], suites: str) -> Iterator[str]:
    """Entries whose class does not exist, or that no suite runs."""
    for table, entries in named.items():
        for key, path in entries.items():
            module, _, attribute = path.partition(":")
            try:
                adapter = getattr(importlib.import_module(module), attribute, None)
            except ImportError as error:
                yield f"{table}[{key}]: {path}: {error}"
                continue
            if adapter is None:
                yield f"{table}[{key}]: {module} has no {attribute}"
            elif table not in suites and attribute not in suites:
                yield f"{table}[{key}]: {attribute} is in no contract suite of tests/contracts"


def _suites(folder: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))


def main() -> int:
    """Checks the registry, once it and a first suite are there."""
    if not (ROOT / "src/patchyard/registry.py").is_file():
        return report("registry", [], note="no registry yet")
    suites = _suites(SUITES)
    if not suites:
        return report("registry", [], note="NOT CHECKED: no contract suite in tests/contracts yet")
    registry = importlib.import_module("patchyard.registry")
    return report("registry", list(findings(tables(registry), suites)))


if __name__ == "__main__":
    sys.exit(main())
