"""No file names a package index that somebody has configured, nor a path of their machine.

The addresses are not written here: they are read from pip's and npm's effective configuration.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pip._internal.models.index import PyPI

from tree import ROOT, files, report

__all__ = ["configured_hosts", "findings", "machine_paths"]

_HOST = re.compile(r"https?://(?:[^/@\s'\"]*@)?([^/:\s'\"]+)")
_NPM = "npmjs"
_SHARED_PLACES = frozenset(
    Path("/", name)
    for name in ("", "home", "mnt", "opt", "root", "srv", "tmp", "usr/src", "var/tmp")
)


def _printed(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    run = subprocess.run(
        command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30
    )
    return run.stdout


def configured_hosts() -> set[str]:
    """The hosts of the package indexes in force here, and the public ones."""
    settings = _printed(sys.executable, "-m", "pip", "config", "list")
    settings += _printed("npm", "config", "get", "registry")
    public = {PyPI.netloc, PyPI.file_storage_domain, f"registry.{_NPM}.org"}
    return (set(_HOST.findall(settings)) | public) - {"localhost", "127.0.0.1"}


def machine_paths(root: Path) -> set[str]:
    """The checkout itself, and the folder it lies in where that is not a shared place."""
    parent = root.parent
    return {str(root)} if parent in _SHARED_PLACES else {str(root), f"{parent}/"}


def findings(paths: Iterable[Path], forbidden: Iterable[str]) -> Iterator[str]:
    """Each line of a text file that holds one of the forbidden words."""
    words = [word.encode() for word in forbidden]
    for path in paths:
        content = path.read_bytes()
        if not any(word in content for word in words):
            continue
        for number, line in enumerate(content.splitlines(), 1):
            for word in words:
                if word in line:
                    yield f"{path}:{number}: names {word.decode()}"


if __name__ == "__main__":
    words = configured_hosts() | machine_paths(ROOT)
    found = [f.replace(f"{ROOT}/", "", 1) for f in findings(files(), words)]
    sys.exit(report("addresses", found))
