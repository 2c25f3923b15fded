"""Each adapter that the registry names is run by its seam's suite, `tests/*/test_*_contract.py`.

A suite runs an adapter when it, or a module of its folder, names the adapter's class, or is
parametrised over the registry's table.
"""

import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from tree import ROOT, report

__all__ = ["findings", "suites", "tables"]

TESTS = ROOT / "tests"


def _flat(key: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from _flat(f"{key}.{name}" if key else str(name), below)
    elif isinstance(value, str) and ":" in value:
        yield key, value


def tables(registry: ModuleType) -> dict[str, dict[str, str]]:
    """The registry's tables: names to `module:Class`, by the table's own name; nested ones flat."""
    found = {name: dict(_flat("", value)) for name, value in vars(registry).items()}
    return {name: entries for name, entries in found.items() if name.isupper() and entries}


def findings(named: Mapping[str, Mapping[str, str]], text: str) -> Iterator[str]:
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
            elif table not in text and attribute not in text:
                yield f"{table}[{key}]: {attribute} is in no tests/*/test_*_contract.py"


def suites(tests: Path) -> str:
    """The text of all contract suites and of what lies beside them to equip them."""
    found = sorted(tests.rglob("test_*_contract.py"))
    beside = {path for suite in found for path in suite.parent.glob("*.py")}
    equipment = sorted(path for path in beside if not path.name.startswith("test_"))
    return "\n".join(path.read_text(encoding="utf-8") for path in [*found, *equipment])


def main() -> int:
    """Checks the registry, once it and a first suite are there."""
    if not (ROOT / "src/patchyard/registry.py").is_file():
        return report("registry", [], note="no registry yet")
    registry = importlib.import_module("patchyard.registry")
    return report("registry", list(findings(tables(registry), suites(TESTS))))


if __name__ == "__main__":
    sys.exit(main())
