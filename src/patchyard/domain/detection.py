"""What a repository's own files say of how it is set up and tested. Looks at no file itself."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from patchyard.domain.package_json import package_of, table_of

Read = Callable[[str], str | None]  # text of a file, None when there is none
Inside = Callable[[str], Collection[str]]  # paths of what lies in a folder at the top

TESTS_READ = 20  # test files that are looked into
TEST_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test)\.py$")
TEST_FUNCTION = re.compile(r"^(async )?def test_", re.MULTILINE)
VENV = "python3 -m venv .venv"
PIP = ".venv/bin/python -m pip install"


@dataclass(frozen=True, kw_only=True)
class Detected:
    """What was found; empty where nothing was."""

    language: str = ""
    setup: tuple[str, ...] = ()
    validate: tuple[str, ...] = ()
    lint: tuple[str, ...] = ()
    because: str = ""  # the file that says so


def detect(read: Read, names: Collection[str], inside: Inside = lambda _: ()) -> Detected:
    """Return how the repository with these top-level `names` is worked on."""
    tested = _pytest_file(read, names, inside)
    found = _python(read, names, tested)
    for look in (_node, _rust, _go, _java, _make):
        found = found or look(read, names)
    return found or _bare_pytest(tested)


def _pytest_file(read: Read, names: Collection[str], inside: Inside) -> str:
    """Return a file whose tests are plain functions, as pytest alone runs them; "" for none."""
    places = [*names, *(path for folder in ("test", "tests") if folder in names
                        for path in inside(folder))]  # fmt: skip
    files = [path for path in sorted(places) if TEST_FILE.search(path)][:TESTS_READ]
    texts = {path: read(path) or "" for path in files}
    if any("TestCase" in text for text in texts.values()):
        return ""
    return next((path for path, text in texts.items() if TEST_FUNCTION.search(text)), "")


def _bare_pytest(tested: str) -> Detected:
    if not tested:
        return Detected()
    return Detected(
        language="python",
        setup=(VENV, f"{PIP} pytest"),
        validate=("python3 -m pytest -q",),
        because=tested,
    )


def _python(read: Read, names: Collection[str], tested: str) -> Detected | None:
    marks = ("pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "tox.ini", "requirements.txt")
    present = [name for name in marks if name in names]
    if not present:
        return None
    texts = {name: read(name) or "" for name in present}
    whole = "\n".join(texts.values())
    is_configured = "pytest.ini" in names or "conftest.py" in names or "pytest" in whole
    has_pytest = is_configured or bool(tested)
    validate = ("python3 -m pytest -q",) if has_pytest else ()
    if not validate and {"tests", "test"} & set(names):
        validate = ("python3 -m unittest discover",)
    ruff = "ruff.toml" in names or ".ruff.toml" in names or "[tool.ruff" in whole
    return Detected(
        language="python",
        setup=_python_setup(texts, has_pytest=has_pytest, is_needed=bool(tested)),
        validate=validate,
        lint=("ruff check .",) if ruff else (),
        because=present[0],
    )


def _python_setup(texts: dict[str, str], *, has_pytest: bool, is_needed: bool) -> tuple[str, ...]:
    wanted = []
    project = texts.get("pyproject.toml", "")
    if "[build-system]" in project or "[project]" in project or "setup.py" in texts:
        extras = [e for e in ("test", "tests", "dev") if _has_extra(project, e)]
        wanted.append(f"-e '.[{','.join(extras)}]'" if extras else "-e .")
    if "requirements.txt" in texts:
        wanted.append("-r requirements.txt")
    if not wanted and not is_needed:
        return ()
    if has_pytest:
        wanted.append("pytest")
    return (VENV, f"{PIP} {' '.join(wanted)}")


def _has_extra(project: str, name: str) -> bool:
    table = project.partition("[project.optional-dependencies]")[2]
    return re.search(rf"^{name}\s*=", table.partition("\n[")[0], re.MULTILINE) is not None


def _node(read: Read, names: Collection[str]) -> Detected | None:
    if "package.json" not in names:
        return None
    package = package_of(read("package.json"))
    scripts = table_of(package, "scripts")
    has_test = "no test specified" not in str(scripts.get("test", "no test specified"))
    needs = bool(package.get("dependencies") or package.get("devDependencies"))
    install = "npm ci" if "package-lock.json" in names else "npm install"
    return Detected(
        language="javascript",
        setup=(install,) if needs else (),
        validate=("npm test",) if has_test else (),
        lint=("npm run lint",) if "lint" in scripts else (),
        because="package.json",
    )


def _rust(_: Read, names: Collection[str]) -> Detected | None:
    if "Cargo.toml" not in names:
        return None
    return Detected(
        language="rust", validate=("cargo test",), lint=("cargo clippy",), because="Cargo.toml"
    )


def _go(_: Read, names: Collection[str]) -> Detected | None:
    if "go.mod" not in names:
        return None
    return Detected(
        language="go", validate=("go test ./...",), lint=("go vet ./...",), because="go.mod"
    )


def _java(_: Read, names: Collection[str]) -> Detected | None:
    if "pom.xml" not in names:
        return None
    return Detected(language="java", validate=("mvn -o -B -q test",), because="pom.xml")


def _make(read: Read, names: Collection[str]) -> Detected | None:
    for name in ("Makefile", "makefile", "GNUmakefile"):
        if name in names and re.search(r"^(test|check)\s*:", read(name) or "", re.MULTILINE):
            target = "test" if re.search(r"^test\s*:", read(name) or "", re.MULTILINE) else "check"
            return Detected(validate=(f"make {target}",), because=name)
    return None


__all__ = [
    "PIP",
    "TESTS_READ",
    "TEST_FILE",
    "TEST_FUNCTION",
    "VENV",
    "Detected",
    "Inside",
    "Read",
    "detect",
]
