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
        ({"pom__xml": ""}, 0, ("mvn -o -B -q test",)),
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


@pytest.mark.parametrize(
    ("path", "text", "is_found"),
    [
        ("test_shop.py", "def test_price():\n    pass\n", True),
        ("shop_test.py", "async def test_price():\n    pass\n", True),
        ("tests/test_shop.py", "import shop\n\ndef test_price():\n    pass\n", True),
        ("tests/test_shop.py", "class T(unittest.TestCase):\n    def test_a(self): ...\n", False),
        ("tests/shop.py", "def test_price():\n    pass\n", False),
        ("tests/test_shop.py", "", False),
    ],
)
def test_tests_that_are_plain_functions_are_run_by_pytest(
    path: str, text: str, *, is_found: bool
) -> None:
    top = path.partition("/")[0]
    seen = detect({path: text}.get, {top}, lambda _: (path,))
    assert (seen.validate == ("python3 -m pytest -q",)) == is_found
    assert (seen.because == path) == is_found
    assert (seen.setup[-1:] == (".venv/bin/python -m pip install pytest",)) == is_found


def test_plain_test_functions_install_the_project_that_can_be_built() -> None:
    files = {"setup.py": "", "tests/test_a.py": "def test_a(): pass\n"}
    seen = detect(files.get, {"setup.py", "tests"}, lambda _: ("tests/test_a.py",))
    assert seen.setup[-1] == ".venv/bin/python -m pip install -e . pytest"
    assert seen.validate == ("python3 -m pytest -q",)


def test_a_target_of_the_repositorys_own_wins_over_a_guess() -> None:
    files = {"Makefile": "test:\n", "test_a.py": "def test_a(): pass\n"}
    assert detect(files.get, set(files)).validate == ("make test",)


def test_a_lock_file_chooses_the_exact_installer() -> None:
    seen = found(package__json='{"dependencies": {"a": "1"}}', package__x="")
    assert seen.setup == ("npm install",)
    names = {"package.json": '{"dependencies": {"a": "1"}}', "package-lock.json": "{}"}
    assert detect(names.get, set(names)).setup == ("npm ci",)
