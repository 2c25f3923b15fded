"""`agents demo` where it cannot begin."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from patchyard.cli.demo import demo


def test_without_git_the_demo_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATCHYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(demo, ["--format", "json"], catch_exceptions=False)
    assert result.exit_code == 4
    error = json.loads(result.stdout)["error"]
    assert (error["message"], error["hint"]) == ("there is no git command", "apt install git")
