"""`agents config show`: what is in force is told as it counts, and is what a plan would take."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from patchyard.cli.config import config
from patchyard.cli.project import project
from patchyard.configuration import user_file


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a checkout of one's own, and return where the user's settings go."""
    subprocess.run(["git", "init", "-q", tmp_path / "shop"], check=True)
    monkeypatch.chdir(tmp_path / "shop")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATCHYARD_HOME", str(tmp_path / "home"))
    file = user_file({"XDG_CONFIG_HOME": str(tmp_path / "config")})
    file.parent.mkdir(parents=True)
    return file


def typed(*words: str) -> Result:
    return CliRunner().invoke(config, words, catch_exceptions=False)


def refused(*words: str) -> dict[str, Any]:
    result = typed(*words, "--format", "json")
    assert result.exit_code == 2, result.stdout
    error: dict[str, Any] = json.loads(result.stdout)["error"]
    return error


@pytest.mark.parametrize("other", ["", "PATCHYARD_EXECUTION_ENVIRONMENT", "project"])
@pytest.mark.parametrize("mode", ["remote", "pod", "mcok"])
def test_a_mode_that_no_plan_could_take_is_refused_as_the_check_does(
    monkeypatch: pytest.MonkeyPatch, mode: str, other: str
) -> None:
    if other == "project":
        words = ["context", "set", "execution_environment", "process"]
        assert CliRunner().invoke(project, words).exit_code == 0
    elif other:
        monkeypatch.setenv(other, "process")
    monkeypatch.setenv("AGENT_MODE", mode)
    error = refused("show")
    assert error == refused("check")
    assert error["message"].startswith("AGENT_MODE: ")
    assert f"environment '{mode}'" in error["message"]
    assert error["hint"].endswith("; set AGENT_MODE to one of them, or unset it")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("role: tester\nexecution_environment: {}\n", "2:1: execution_environment: "),
        ("tools:\n  grep_search: {{execution_environment: {}}}\n", "2:17: tools.grep_search"),
    ],
)
@pytest.mark.parametrize("word", ["remote", "Remote", "pod", "nowhere"])
def test_a_place_that_there_is_not_is_refused_by_the_word_file_and_line(
    settings: Path, text: str, place: str, word: str
) -> None:
    settings.write_text(text.format(word))
    error = refused("show")
    assert error == refused("check")
    assert error["message"].startswith(f"{settings}:{place}")
    assert f"environment '{word}'" in error["message"]
    assert error["hint"].startswith("known: container, devcontainer, host, ")


def test_a_variable_with_a_place_that_there_is_not_is_named_with_its_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATCHYARD_EXECUTION_ENVIRONMENT", "remote")
    said = "PATCHYARD_EXECUTION_ENVIRONMENT: the environment 'remote' is not in this version"
    for command in ("show", "check"):
        assert refused(command)["message"] == said


def test_a_place_that_does_not_count_here_hides_no_setting(tmp_path: Path) -> None:
    folder = tmp_path / "shop" / ".patchyard"
    folder.mkdir()
    (folder / "config.yaml").write_text("execution_environment: remote\n")
    assert typed("show").exit_code == 0
    assert typed("check").exit_code == 2
