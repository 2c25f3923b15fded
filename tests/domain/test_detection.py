"""How a repository is set up and tested, found from its own files."""

import pytest

from patchyard.domain.detection import Detected, detect

PYPROJECT = """
[build-system]
requires = ["hatchling"]
[project.optional-dependencies]
test = ["pytest"]
docs = ["x"]
[tool.ruff]
"""


def found(**files: str) -> Detected:
    named = {name.replace("__", "."): text for name, text in files.items()}
    return detect(named.get, set(named))


def test_a_python_project_with_extras() -> None:
    seen = found(pyproject__toml=PYPROJECT)
    assert seen.language == "python"
    assert seen.setup[-1] == ".venv/bin/python -m pip install -e '.[test]' pytest"
    assert seen.validate == ("python3 -m pytest -q",)
    assert seen.lint == ("ruff check .",)
    assert seen.because == "pyproject.toml"


@pytest.mark.parametrize(
    ("files", "setup", "validate"),
    [
        ({"requirements__txt": "pytest\n"}, 2, ("python3 -m pytest -q",)),
        ({"setup__py": "", "tests": ""}, 2, ("python3 -m unittest discover",)),
        ({"setup__cfg": "[metadata]"}, 0, ()),
        ({"pytest__ini": ""}, 0, ("python3 -m pytest -q",)),
        ({"package__json": '{"scripts": {"test": "jest"}}'}, 0, ("npm test",)),
        ({"package__json": '{"scripts": {"test": "echo no test specified"}}'}, 0, ()),
        ({"package__json": '{"devDependencies": {"a": "1"}}'}, 1, ()),
        ({"package__json": "[" * 10_000}, 0, ()),
        ({"package__json": '["x"]'}, 0, ()),
        ({"Cargo__toml": ""}, 0, ("cargo test",)),
        ({"go__mod": ""}, 0, ("go test ./...",)),
        ({"Makefile": "all:\ntest: all\n"}, 0, ("make test",)),
        ({"Makefile": "check:\n"}, 0, ("make check",)),
        ({"Makefile": "all:\n"}, 0, ()),
        ({"README": ""}, 0, ()),
    ],
)
def test_what_each_kind_of_repository_says(
    files: dict[str, str], setup: int, validate: tuple[str, ...]
) -> None:
    seen = found(**files)
    assert len(seen.setup) == setup
    assert seen.validate == validate


def test_a_lock_file_chooses_the_exact_installer() -> None:
    seen = found(package__json='{"dependencies": {"a": "1"}}', package__x="")
    assert seen.setup == ("npm install",)
    names = {"package.json": '{"dependencies": {"a": "1"}}', "package-lock.json": "{}"}
    assert detect(names.get, set(names)).setup == ("npm ci",)
