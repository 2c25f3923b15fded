"""Which gates fit a repository, by its files."""

import pytest

from patchyard.domain.gate_detection import ALWAYS, gates_for
from patchyard.domain.shipped_gates import SHIPPED

PYPROJECT = "[tool.pytest.ini_options]\n[tool.ruff.format]\n[tool.mypy]\n[tool.coverage.run]\n"
PACKAGE = '{"scripts": {"test": "vitest"}, "devDependencies": {"eslint": "9", "prettier": "3"}}'
CASES: list[tuple[dict[str, str], dict[str, str]]] = [
    ({}, {}),
    (
        {"pyproject.toml": PYPROJECT, ".bandit": "", "mkdocs.yml": ""},
        {
            "tests": "pytest", "lint": "ruff", "format": "ruff-format", "types": "mypy",
            "coverage": "coverage", "security": "bandit", "docs": "mkdocs",
        },
    ),
    (
        {"package.json": PACKAGE, "tsconfig.json": "{}"},
        {"tests": "vitest", "lint": "eslint", "format": "prettier", "types": "tsc"},
    ),
    ({"package.json": '{"scripts": {"test": "node --test test/"}}'}, {"tests": "node-test"}),
    ({"package.json": '{"scripts": {"test": "CI=1 mocha"}}'}, {"tests": "mocha"}),
    ({"package.json": '{"scripts": {"test": "mocha && x"}}'}, {"tests": "npm-test"}),
    ({"package.json": '{"scripts": {"test": "jest"}}'}, {"tests": "npm-test"}),
    (
        {"package.json": '{"scripts": {"test": "jest"}, "devDependencies": {"jest-junit": ""}}'},
        {"tests": "jest"},
    ),
    ({"package.json": "[" * 100_000, ".semgrep": ""}, {"rules": "semgrep"}),
    ({"package.json": '{"scripts": {"test": "echo no test specified"}}'}, {}),
    ({"package.json": "[]"}, {}),
    ({"go.mod": ""}, {"tests": "go-test", "lint": "go-vet", "format": "gofmt"}),
    ({"Cargo.toml": ""}, {"tests": "cargo-test", "lint": "clippy", "format": "rustfmt"}),
    ({"pom.xml": ""}, {"tests": "mvn-test", "lint": "javac"}),
    ({"pom.xml": "", "pyproject.toml": "pytest"}, {"tests": "pytest", "lint": "javac"}),
]  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), CASES)
def test_gates_are_found_by_the_files_that_say_so(
    files: dict[str, str], expected: dict[str, str]
) -> None:
    found = gates_for(files.get, files)
    assert found == {**expected, **ALWAYS}
    assert set(found.values()) <= set(SHIPPED)
