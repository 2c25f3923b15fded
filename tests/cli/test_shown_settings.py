"""`agents config show`: what is in force is told as it counts, and is what a plan would take."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from patchyard.cli.config import config
from patchyard.cli.project import project


@pytest.fixture(autouse=True)
def settings(config_folder: Path) -> Path:
    """Return the file of the user's settings."""
    return config_folder / "config.yaml"


def typed(*words: str) -> Result:
    return CliRunner().invoke(config, words, catch_exceptions=False)


def lines(*words: str) -> dict[str, str]:
    """Return what is said of each setting, by its name."""
    result = typed("show", *words)
    assert result.exit_code == 0, result.stderr
    return {line.split()[0]: " ".join(line.split()[1:]) for line in result.stdout.splitlines()}


def shown_data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(typed("show", "--format", "json").stdout)["data"]["settings"]
    return data


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


def test_what_is_said_has_the_units_of_its_default_and_the_rest_is_told_beside_it(
    settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.write_text("keep: {workspaces: 3d, free: 500M, machines: 90m}\npool: {age: 20m}\n")
    monkeypatch.setenv("PATCHYARD_KEEP", "{workspaces: 1d}")
    found = lines("--origin")
    assert {name: said for name, said in found.items() if name.startswith("keep")} == {
        "keep.workspaces": "1d PATCHYARD_KEEP",
        "keep.journals": "90d default",
        "keep.machines": f"90m {settings}",
        "keep.free": f"500 MiB {settings}",
    }
    assert {name: said for name, said in found.items() if name.startswith("pool")} == {
        "pool.size": "1 default",
        "pool.total": "4 default",
        "pool.age": f"20m {settings}",
    }
    marked = lines()
    assert [marked[f"pool.{part}"] for part in ("size", "age")] == ["1 (default)", "20m"]


@pytest.mark.parametrize(
    ("text", "said", "usual"),
    [
        (
            "environment_limits: {memory: 1G}",
            {"memory": "1 GiB"},
            {"temporary": "512 MiB", "disk": "16 GiB", "cpus": "no limit", "wall": "no limit"},
        ),
        (
            "safety: {require_sandbox: true, max_total_cost: 2}",
            {"require_sandbox": "true", "max_total_cost": "2.0"},
            {"allow_unsafe_tools": "true", "categories": "all", "max_cost_per_plan": "no limit"},
        ),
        (
            "slots: {per_project: 2}",
            {"per_project": "2"},
            {"per_model": "no limit", "projects": "none", "models": "none"},
        ),
        ('images: {python: "p:1"}', {"python": "p:1"}, {"base": "debian:stable", "go": "golang:1"}),
        (
            "network: {max_call_bytes: 1M, planning: true}",
            {"max_call_bytes": "1 MiB", "planning": "true"},
            {"max_plan_bytes": "10 GiB", "allow_hosts": "none"},
        ),
        ("pool: {size: 1}", {"size": "1"}, {"total": "4", "age": "10m"}),
        ("keep: {}", {}, {"workspaces": "7d", "free": "1 GiB"}),
    ],
)
def test_a_record_that_is_said_in_part_is_shown_whole(
    settings: Path, text: str, said: dict[str, str], usual: dict[str, str]
) -> None:
    settings.write_text(text)
    found, record = lines(), text.partition(":")[0]
    assert record not in found
    assert {part: found[f"{record}.{part}"] for part in said} == said
    marked = {part: f"{value} (default)" for part, value in usual.items()}
    assert {part: found[f"{record}.{part}"] for part in usual} == marked


def test_no_value_is_the_same_word_wherever_it_is_said(settings: Path) -> None:
    settings.write_text(
        "setup: []\nmounts: []\nvariables: {}\nnetwork: {allow_hosts: []}\n"
        "checkpoints: {auto_create_on: []}\nroles: []\nmodel: ''\nprotected_paths: []\n"
    )
    found = lines()
    names = ("setup", "mounts", "variables", "network.allow_hosts", "checkpoints")
    assert {found[name] for name in names} == {"none"}
    assert found["validate"] == found["include"] == "none (default)"
    assert found["roles"] == "the role alone"
    assert found["model"].startswith("found when a plan begins")
    assert found["protected_paths"] == "the list of this version alone"


def test_an_image_of_no_name_is_the_one_that_counts_by_default(settings: Path) -> None:
    settings.write_text("images: {python: '', go: 'g:1'}\n")
    found = lines()
    assert (found["images.python"], found["images.go"]) == ("python:3", "g:1")


def test_a_repository_begins_no_row_with_what_its_command_holds(tmp_path: Path) -> None:
    folder = tmp_path / "shop" / ".patchyard"
    folder.mkdir()
    (folder / "config.yaml").write_text('validate: "true\\nmodel  ours:own"\n')
    found = lines()
    assert found["validate"] == r"true\nmodel ours:own"
    assert found["model"].startswith("found when a plan begins")


def test_tools_are_shown_as_they_can_be_written(settings: Path) -> None:
    said = "{grep_search: {execution_environment: mock, preference: preferred}}"
    settings.write_text(f"tools: {said}")
    assert lines()["tools"] == said


def test_data_keeps_what_was_said_and_adds_each_part_as_a_plain_number(settings: Path) -> None:
    usual = shown_data()
    assert usual["keep"] == {"value": None, "origin": "default"}
    assert usual["keep.workspaces"] == {"value": 604_800.0, "origin": "default"}
    assert usual["environment_limits.wall"] == {"value": None, "origin": "default"}
    settings.write_text("keep: {workspaces: 3d}\npool: {size: 2}\n")
    found = shown_data()
    assert found["keep"] == {"value": {"workspaces": 259_200.0}, "origin": str(settings)}
    assert found["keep.workspaces"] == {"value": 259_200.0, "origin": str(settings)}
    assert found["keep.free"] == {"value": 1024**3, "origin": "default"}
    assert found["pool"]["value"] == {"size": 2, "total": 4, "age": 600.0}
    assert found["pool.total"] == {"value": 4, "origin": "default"}
    assert set(found) == set(usual)
