"""Tests that take `ordinary` run as an ordinary user, even where the suite is root's.

Root lets `nobody` run them, in a pytest of its own on a Python that every user can read: modules
that a test loads late are read by that user too. Tests of one file share that run.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from services import REAL_ENVIRONMENT, need, ordinary_python

__all__ = ["NOBODY", "ordinary", "pytest_pyfunc_call"]

NOBODY = 65534
_LONGEST_S = 270  # of one file's tests; below the time-out of a test
_TOLD = pytest.StashKey[dict[Path, Mapping[str, str]]]()
#: The variables of a worker of xdist are not this run's.
_LEFT_OUT = ("PYTEST_XDIST_", "PYTEST_CURRENT_TEST", "HOME", "TMPDIR")
_START = """
import os, sys
if os.environ.get("COVERAGE_PROCESS_CONFIG"):
    import coverage
    coverage.process_startup()
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the ordinary user who runs the test."""
    need("ordinary-user")
    place = Path(tempfile.mkdtemp(prefix="ordinary-"))
    monkeypatch.setenv("HOME", str(place))
    yield place
    shutil.rmtree(place)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Tell what the test said where an ordinary user ran it."""
    if os.geteuid() != 0 or "ordinary" not in pyfuncitem.fixturenames:
        return None
    told = pyfuncitem.config.stash.setdefault(_TOLD, {})
    if pyfuncitem.path not in told:
        root = pyfuncitem.config.rootpath
        told[pyfuncitem.path] = _run_as_nobody(_items_beside(pyfuncitem), root)
    trouble = told[pyfuncitem.path].get(pyfuncitem.name, "the test was not run")
    if trouble:
        pytest.fail(f"as user {NOBODY}: {trouble}", pytrace=False)
    return True


def _items_beside(item: pytest.Function) -> list[pytest.Item]:
    """The tests of the same file that an ordinary user is to run."""
    return [
        each
        for each in item.session.items
        if each.path == item.path and "ordinary" in getattr(each, "fixturenames", ())
    ]


def _run_as_nobody(items: list[pytest.Item], root: Path) -> Mapping[str, str]:
    """What was wrong with each test, by its name; empty where it passed."""
    # Not below what a test calls its temporary folder: the user may not reach that.
    place = REAL_ENVIRONMENT.get("TMPDIR", "/tmp")
    folder = Path(tempfile.mkdtemp(prefix="ordinary-", dir=place))
    os.chown(folder, NOBODY, NOBODY)
    report = folder / "report.xml"
    options = [*("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist")]
    options += [f"--rootdir={root}", f"--basetemp={folder}/base", f"--junitxml={report}"]
    kept = {n: v for n, v in REAL_ENVIRONMENT.items() if not n.startswith(_LEFT_OUT)}
    try:
        run = subprocess.run(
            [*ordinary_python(), "-B", "-c", _START, *options, *(each.nodeid for each in items)],
            check=False,
            capture_output=True,
            text=True,
            cwd=root,
            env={**kept, "HOME": str(folder), "TMPDIR": str(folder)},
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            timeout=_LONGEST_S,
        )
        if not report.exists():
            return dict.fromkeys((each.name for each in items), run.stdout + run.stderr)
        return {case.get("name", ""): _trouble(case) for case in _cases(report)}
    finally:
        shutil.rmtree(folder)


def _cases(report: Path) -> Iterator[ET.Element]:
    return ET.parse(report).iter("testcase")  # noqa: S314 - a report of our own


def _trouble(case: ET.Element) -> str:
    return "\n".join(f"{each.get('message', '')}\n{each.text or ''}" for each in case)
