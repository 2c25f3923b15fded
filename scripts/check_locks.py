"""The locks pin every requirement with hashes and name no index, and follow pyproject.toml."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tree import ROOT, report

__all__ = ["findings", "pins"]

_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)")


def pins(lock: str) -> dict[str, str]:
    """Names and versions of a lock; raises ValueError on a line without a hash or pin."""
    found: dict[str, str] = {}
    for entry in re.sub(r"\\\n", " ", lock).splitlines():
        line = entry.strip()
        if not line or line.startswith("#"):
            continue
        match = _PIN.match(line)
        if match is None or "--hash=sha256:" not in line:
            raise ValueError(line[:80])
        found[canonicalize_name(match.group(1))] = match.group(2)
    return found


def findings(lock: Path, wanted: list[str]) -> Iterator[str]:
    """What one lock lacks."""
    try:
        locked = pins(lock.read_text(encoding="utf-8"))
    except ValueError as error:
        yield f"{lock.name}: not a pin with a hash: {error}"
        return
    for requirement in map(Requirement, wanted):
        version = locked.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            yield f"{lock.name}: {requirement} is not locked; cure: make lock"


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    runtime, extras = project["dependencies"], project["optional-dependencies"]
    found = list(findings(ROOT / "requirements/runtime.lock", runtime))
    found += findings(ROOT / "requirements/dev.lock", runtime + extras["test"])
    sys.exit(report("locks", found))
