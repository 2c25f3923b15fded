"""Fixtures of this folder: a checkout to make plans for."""

import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    for words in (
        ["init", "-q"],
        ["-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "m"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder
