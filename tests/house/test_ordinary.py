"""Tests of an ordinary user in a suite of root's."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from services import REAL_ENVIRONMENT

TESTS = Path(__file__).parents[1]
SETTINGS = f"""\
[pytest]
pythonpath = {TESTS} {TESTS.parent / "scripts"}
"""
EXAMPLE = """\
import os

import pytest

def test_the_users_own(ordinary):
    import colorsys  # loaded late
    assert (os.getuid(), os.geteuid(), os.getgroups()) == (65534, 65534, [])
    assert ordinary.stat().st_uid == 65534

@pytest.mark.parametrize("what", ["a/b", "c::d"])
def test_what_fails(ordinary, what):
    assert what == "nothing"

def test_of_root():
    assert os.geteuid() == 0
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may read."""
    folder = Path(tempfile.mkdtemp(prefix="ordinary-example-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.service("root")
@pytest.mark.service("ordinary-user")
def test_a_test_of_an_ordinary_user_runs_as_one_and_fails_as_it_does_there(
    open_folder: Path,
) -> None:
    (open_folder / "pytest.ini").write_text(SETTINGS)
    (open_folder / "conftest.py").write_text('pytest_plugins = ["ordinary"]\n')
    (open_folder / "test_example.py").write_text(EXAMPLE)

    words = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_example.py"]
    run = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", *words],
        check=False,
        capture_output=True,
        text=True,
        cwd=open_folder,
        env={**os.environ, "PATH": REAL_ENVIRONMENT["PATH"], "PYTEST_ADDOPTS": ""},
    )

    assert run.stdout.splitlines()[-1].startswith("2 failed, 2 passed"), run.stdout
    assert "assert 'c::d' == 'nothing'" in run.stdout
