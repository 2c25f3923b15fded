"""Which gates fit a repository, from its own files. Looks at no file itself."""

import re
from collections.abc import Callable, Collection, Mapping

from patchyard.domain.package_json import package_of, table_of

Read = Callable[[str], str | None]  # text of a file, None when there is none

# By gate: files that say so, and words in the settings files of its language.
_PYTHON: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "lint=ruff": (("ruff.toml", ".ruff.toml"), ("[tool.ruff",)),
    "format=ruff-format": ((), ("[tool.ruff.format",)),
    "format=black": ((), ("[tool.black",)),
    "types=mypy": (("mypy.ini", ".mypy.ini"), ("[tool.mypy", "[mypy]")),
    "coverage=coverage": ((".coveragerc",), ("[tool.coverage", "[coverage:")),
    "security=bandit": ((".bandit", "bandit.yaml"), ("[tool.bandit", "[bandit]")),
    "docs=mkdocs": (("mkdocs.yml", "mkdocs.yaml"), ()),
}
_SETTINGS = ("pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", "requirements.txt")
# By gate: a script that is one command, since what asks for a report goes to its end.
_RUNNERS: Mapping[str, re.Pattern[str]] = {
    gate: re.compile(rf"(?:cross-env |[A-Z_]+=\S* )*{words}(?: [^&|;<>]*)?")
    for gate, words in {
        "jest": "jest", "mocha": "mocha", "node-test": "node (?:.* )?--test", "vitest": "vitest"
    }.items()
}  # fmt: skip
_NODE = {"lint": "eslint", "format": "prettier"}
_OTHERS: Mapping[str, Mapping[str, str]] = {
    "Cargo.toml": {"tests": "cargo-test", "lint": "clippy", "format": "rustfmt"},
    "go.mod": {"tests": "go-test", "lint": "go-vet", "format": "gofmt"},
    "pom.xml": {"tests": "mvn-test", "lint": "javac"},
}
ALWAYS: Mapping[str, str] = {"secrets": "secrets", "licences": "licences"}  # need no tool


def gates_for(read: Read, names: Collection[str]) -> Mapping[str, str]:
    """Return gates by what they are for, each the name of one that comes with us.

    `names` are those at the top of the repository. Whether a tool is installed nobody knows here.
    """
    found: dict[str, str] = {}
    for look in (_python, _node, _other):
        for purpose, gate in look(read, names).items():
            found.setdefault(purpose, gate)
    if ".semgrep" in names:
        found["rules"] = "semgrep"
    return {**found, **ALWAYS}


def _python(read: Read, names: Collection[str]) -> Mapping[str, str]:
    present = [name for name in _SETTINGS if name in names]
    whole = "\n".join(read(name) or "" for name in present)
    found = {}
    if present and "pytest" in whole:
        found["tests"] = "pytest"
    for said, (files, words) in _PYTHON.items():
        if any(name in names for name in files) or any(word in whole for word in words):
            purpose, _, gate = said.partition("=")
            found.setdefault(purpose, gate)
    return found


def _node(read: Read, names: Collection[str]) -> Mapping[str, str]:
    if "package.json" not in names:
        return {}
    package = package_of(read("package.json"))
    test, needs = table_of(package, "scripts").get("test"), table_of(package, "devDependencies")
    found = {}
    if test and "no test specified" not in str(test):
        found["tests"] = _runner(str(test), needs)
    found |= {purpose: gate for purpose, gate in _NODE.items() if gate in needs}
    if "tsconfig.json" in names:
        found["types"] = "tsc"
    return found


def _runner(script: str, needs: Mapping[str, object]) -> str:
    """Return the gate of the runner that a script is; `npm-test` goes by the exit code alone."""
    gate = next((gate for gate, form in _RUNNERS.items() if form.fullmatch(script)), "npm-test")
    return "npm-test" if gate == "jest" and "jest-junit" not in needs else gate


def _other(_: Read, names: Collection[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, gates in _OTHERS.items():
        if name in names:
            found = {**gates, **found}
    return found


__all__ = ["ALWAYS", "gates_for"]
