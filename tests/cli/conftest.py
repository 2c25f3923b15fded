"""A checkout and settings of a test's own, for commands that are called in this process."""

import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a checkout of the test's own, and return where the user's settings go."""
    subprocess.run(["git", "init", "-q", tmp_path / "shop"], check=True)
    monkeypatch.chdir(tmp_path / "shop")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATCHYARD_HOME", str(tmp_path / "home"))
    folder = tmp_path / "config" / "patchyard"
    folder.mkdir(parents=True)
    return folder
