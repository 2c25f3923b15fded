"""Which changed files a person should look at before trusting a green proof."""

from collections.abc import Iterable
from fnmatch import fnmatch

from patchyard.domain.changeset import Change

WATCHED = (
    "test/*", "tests/*", "*/test/*", "*/tests/*", "test_*.py", "*/test_*.py", "*_test.py",
    "*_test.go", "*.test.[jt]s", "*.spec.[jt]s", "*.test.[jt]sx", "*.spec.[jt]sx", "__tests__/*",
    "*/__tests__/*", "spec/*", "conftest.py", "*/conftest.py", "pyproject.toml", "setup.cfg",
    "setup.py", "tox.ini", "noxfile.py", "pytest.ini", ".coveragerc", "ruff.toml", ".ruff.toml",
    "mypy.ini", ".flake8", "package.json", "jest.config.*", "vitest.config.*", ".eslintrc*",
    "eslint.config.*", "tsconfig*.json", "Makefile", "Cargo.toml", "go.mod",
)  # fmt: skip


def touched_proof(changes: Iterable[Change]) -> tuple[str, ...]:
    """Return the changed tests and tool settings, listed above every verdict."""
    paths = {path for change in changes for path in (change.path, change.old_path) if path}
    return tuple(sorted(path for path in paths if any(fnmatch(path, glob) for glob in WATCHED)))


__all__ = ["WATCHED", "touched_proof"]
