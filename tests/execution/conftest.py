"""A folder that an agent may pass, with a state folder, workspaces and a repository of its own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from execution.premises import Premises


@pytest.fixture
def premises(monkeypatch: pytest.MonkeyPatch) -> Iterator[Premises]:
    folder = Path(tempfile.mkdtemp(prefix="premises-", dir="/tmp"))
    folder.chmod(0o711)
    (folder / "tmp").mkdir(mode=0o711)
    monkeypatch.setenv("PATCHYARD_HOME", str(folder / "state"))
    monkeypatch.setenv("WORKSPACE_DIR", str(folder / "workspaces"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    made = Premises(folder=folder)
    made.repository.mkdir()
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
        if words[0] == "add":
            (made.repository / "README.md").write_text("a shop\n")
            (made.repository / "src").mkdir()
            (made.repository / "src/shop.py").write_text("def price():\n    return 1\n")
        subprocess.run(
            ["git", "-c", "user.name=T", "-c", "user.email=t@localhost", *words],
            cwd=made.repository,
            check=True,
        )
    yield made
    left = made.left
    subprocess.run(["chmod", "-R", "u+rwX", "--", str(folder)], check=True)
    shutil.rmtree(folder)
    assert left == [], "something was left behind"
    assert os.environ["PATCHYARD_HOME"]
