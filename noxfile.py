"""The sessions of the quality run; bare `nox` runs them all but the coverage report.

They run in the project's own .venv, which `make setup` makes from the lock: what nox checks is
what make checks. Call it as `.venv/bin/nox`, or have the .venv active.
"""

from pathlib import Path

import nox

__all__ = ["behave", "benchmark", "coverage_report", "lint", "robot", "types", "unit"]

ROOT = Path(__file__).parent
BIN = ROOT / ".venv/bin"
PYTHON = str(BIN / "python")

nox.needs_version = ">=2024.10"
nox.options.sessions = ["lint", "types", "unit", "behave", "robot", "benchmark"]
nox.options.default_venv_backend = "none"
nox.options.error_on_missing_interpreters = True


def _run(session: nox.Session, *command: str) -> None:
    if not BIN.is_dir():
        session.error("there is no .venv; cure: make setup")
    session.run(*command, external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff, the layers and the project's own checks."""
    _run(session, str(BIN / "ruff"), "check", ".")
    _run(session, str(BIN / "ruff"), "format", "--check", ".")
    _run(session, str(BIN / "lint-imports"), "--no-logo")
    for check in sorted((ROOT / "scripts").glob("check_*.py")):
        _run(session, PYTHON, str(check))
    _run(session, PYTHON, "scripts/cli_reference.py", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """Mypy, strict."""
    _run(session, str(BIN / "mypy"))


@nox.session
def unit(session: nox.Session) -> None:
    """Pytest; arguments after -- are handed on."""
    _run(session, PYTHON, "-m", "pytest", *session.posargs)


@nox.session
def behave(session: nox.Session) -> None:
    """The scenarios of features/."""
    _run(session, PYTHON, "scripts/run_tests.py", "--only", "behave")


@nox.session
def robot(session: nox.Session) -> None:
    """The cases of robot/."""
    _run(session, PYTHON, "scripts/run_tests.py", "--only", "robot")


@nox.session
def benchmark(session: nox.Session) -> None:
    """The table of measures, then each asv benchmark once, in this environment."""
    _run(session, PYTHON, "scripts/bench.py")
    # asv keeps what it knows of the machine in the home: here, in a folder that git ignores.
    home = ROOT / ".asv"
    home.mkdir(exist_ok=True)
    asv, here = str(BIN / "asv"), ("--environment", f"existing:{PYTHON}")
    _run(session, "env", f"HOME={home}", asv, "machine", "--yes")
    _run(session, "env", f"HOME={home}", asv, "run", *here, "--quick", "--dry-run")


@nox.session
def coverage_report(session: nox.Session) -> None:
    """All suites with their coverage; writes build/coverage.xml, fails under the ratchet."""
    _run(session, PYTHON, "scripts/run_tests.py")
