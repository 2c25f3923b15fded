"""What `doctor` says of a git that is too old, says nothing, or is none."""

import os
from pathlib import Path

import pytest

from patchyard.cli import doctor

pytestmark = pytest.mark.anyio

SAYING_NOTHING = ("exit 127", "exit 0", "echo", "echo git", "echo git version", "printf '\\377'")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs are looked for first."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def install(path: Path, does: str) -> Path:
    git = path / "git"
    git.write_text(f"#!/bin/sh\n{does}\n")
    git.chmod(0o755)
    return git


@pytest.mark.parametrize("does", [*SAYING_NOTHING, "echo git version ².⁵", "kill -9 $$"])
async def test_a_git_that_does_not_say_its_version_is_no_good(path: Path, does: str) -> None:
    git = install(path, does)
    found = await doctor._git()
    assert (found.is_good, found.is_needed) == (False, True)
    assert found.said == f"{git} does not say its version"
    assert found.cure == "install git 2.30 or newer"


@pytest.mark.parametrize(
    ("version", "is_good"),
    [("2.30.0", True), ("10.0.windows.1", True), ("2.29.9", False), ("1.99", False)],
)
async def test_a_git_is_as_good_as_its_version(path: Path, version: str, *, is_good: bool) -> None:
    install(path, f"echo warning: a word before >&2; echo git version {version}")
    found = await doctor._git()
    assert (found.is_good, found.said) == (is_good, version)


async def test_no_git_is_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = await doctor._git()
    assert (found.is_good, found.said) == (False, "not found")
