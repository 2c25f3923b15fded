"""`agents init`, `trust` and `config` as a user types them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from laboratory import AGENT
from patchyard.cli.config import config
from patchyard.cli.init import init, settings_text
from patchyard.cli.project import project
from patchyard.cli.trust import trust
from patchyard.domain.durations import duration

COMMANDS: dict[str, click.Command] = {"config": config, "init": init, "trust": trust}


@pytest.fixture(autouse=True)
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "x"\n[tool.pytest]\n[tool.ruff]\n')
    monkeypatch.chdir(folder)
    return folder


def typed(*words: str) -> Result:
    return CliRunner().invoke(COMMANDS[words[0]], words[1:], catch_exceptions=False)


def data(*words: str) -> Any:
    result = typed(*words, "--format", "json")
    envelope = json.loads(result.stdout)
    assert envelope["status"] == "ok", envelope
    return envelope["data"]


def settings_file(top: Path, text: str) -> Path:
    file = top / ".patchyard" / "config.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def test_init_writes_what_it_found_and_never_overwrites(top: Path) -> None:
    made = data("init")
    assert made["language"] == "python"
    assert made["validate"] == ["python3 -m pytest -q"]
    assert made["trusted"]
    text = (top / ".patchyard" / "config.yaml").read_text()
    assert '- "python3 -m pytest -q"' in text
    assert "ruff check" in text
    shown = data("config", "show")
    assert shown["trusted"]
    assert shown["ignored"] == []
    assert shown["settings"]["validate"]["value"] == ["python3 -m pytest -q"]
    again = typed("init")
    assert again.exit_code == 3
    assert "--force" in again.stderr
    assert (top / ".patchyard" / "config.yaml").read_text() == text
    assert data("init", "--force")["trusted"]


def test_init_does_not_trust_what_others_put_there(top: Path) -> None:
    settings_file(top, "").with_name("models.yaml").write_text("providers: {}\n")
    assert typed("init", "--force").exit_code == 0
    assert not data("config", "show")["trusted"]


@pytest.mark.service("root")
def test_what_root_writes_into_a_checkout_belongs_to_its_owner(top: Path) -> None:
    os.chown(top, AGENT, AGENT)
    assert typed("init").exit_code == 0
    made = [top / ".patchyard", top / ".patchyard/config.yaml"]
    assert [each.stat().st_uid for each in made] == [AGENT] * 2


def test_init_writes_through_no_link_that_comes_while_it_works(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*args: Any, **options: Any) -> str:
        (top / ".patchyard").symlink_to(tmp_path, target_is_directory=True)
        return settings_text(*args, **options)

    monkeypatch.setattr(sys.modules["patchyard.cli.init"], "settings_text", late)
    result = typed("init")
    assert (result.exit_code, "config.yaml cannot be written" in result.stderr) == (3, True)
    assert not (tmp_path / "config.yaml").exists()


def test_init_writes_through_no_link(top: Path, tmp_path: Path) -> None:
    (top / ".patchyard").symlink_to(tmp_path, target_is_directory=True)
    result = typed("init", "--force")
    assert result.exit_code == 3
    assert not (tmp_path / "config.yaml").exists()


@pytest.mark.parametrize(
    ("words", "code"), [(("config", "check"), 2), (("trust",), 2), (("init", "--force"), 3)]
)
def test_a_settings_file_that_could_block_is_named_and_never_opened(
    top: Path, words: tuple[str, ...], code: int
) -> None:
    (top / ".patchyard").mkdir()
    os.mkfifo(top / ".patchyard" / "config.yaml")
    result = typed(*words)
    assert result.exit_code == code
    assert ".patchyard/config.yaml is a special file" in result.stderr


def test_config_show_gives_the_environment_that_a_plan_would_take(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_file(top, "execution_environment: process\n")
    words = ["context", "set", "execution_environment", "container"]
    assert CliRunner().invoke(project, words).exit_code == 0
    data("trust")
    found = data("config", "show")["settings"]["execution_environment"]
    assert found == {"value": "container", "origin": "project shop"}
    monkeypatch.setenv("PATCHYARD_EXECUTION_ENVIRONMENT", "process")
    found = data("config", "show")["settings"]["execution_environment"]
    assert found == {"value": "process", "origin": "PATCHYARD_EXECUTION_ENVIRONMENT"}


def test_config_names_a_misspelt_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHYARD_MAX_STEP", "3")
    assert "did you mean PATCHYARD_MAX_STEPS?" in typed("config", "show").stderr
    assert "did you mean PATCHYARD_MAX_STEPS?" in typed("config", "check").stdout


def test_what_names_a_part_of_models_yaml_is_no_misspelt_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATCHYARD_MODELS_ENVIRONMENT", "prod")
    assert typed("config", "show").stderr == ""
    monkeypatch.setenv("PATCHYARD_MODELS_ENVIRONMNT", "prod")
    assert "did you mean PATCHYARD_MODELS_ENVIRONMENT?" in typed("config", "show").stderr


def test_trust_is_given_voided_by_change_and_taken_back(top: Path) -> None:
    refused = typed("trust")
    assert refused.exit_code == 2
    assert "agents init" in refused.stderr
    file = settings_file(top, "mounts: [/opt/x]\ntools: {t: {execution_environment: host}}\n")
    before = data("config", "show")
    assert before["ignored"] == ["mounts", "tools"]
    assert before["settings"]["mounts"] == {"value": None, "origin": "default"}
    given = data("trust", str(top))
    assert given["files"] == [".patchyard/config.yaml"]
    assert given["ignored"] == ["tools.t"]
    after = data("config", "show")
    assert after["settings"]["mounts"]["value"] == ["/opt/x"]
    assert after["settings"]["mounts"]["origin"] == ".patchyard/config.yaml"
    file.write_text(file.read_text() + "# more\n")
    assert not data("config", "show")["trusted"]
    data("trust")
    assert data("trust", "--revoke")["was_trusted"]
    assert not data("trust", "--revoke")["was_trusted"]
    assert not data("config", "show")["trusted"]


def test_config_show_says_where_each_value_came_from(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_file(top, "setup: [make]\nlimits: {rounds: 1}\n")
    monkeypatch.setenv("PATCHYARD_BUDGET_USD", "2.5")
    lines = typed("config", "show", "--origin").stdout.splitlines()
    found = {line.split()[0]: line for line in lines}
    assert "PATCHYARD_BUDGET_USD" in found["limits.budget_usd"]
    assert ".patchyard/config.yaml" in found["setup"]
    assert ".patchyard/config.yaml" in found["limits.rounds"]
    assert "default" in found["limits.max_steps"]
    assert found["limits.timeout"].split()[1] == "1h"


def test_config_show_gives_the_default_of_every_setting_and_marks_it(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_file(top, "setup: [make]\nprotected_paths: []\n")
    monkeypatch.setenv("PATCHYARD_MAX_STEPS", "7")
    lines = {
        line.split()[0]: line.split()[1:] for line in typed("config", "show").stdout.splitlines()
    }
    assert lines["setup_share"] == ["tree", "(default)"]
    assert lines["limits.timeout"] == ["1h", "(default)"]
    assert lines["pool"][-1] == "(default)"
    assert [lines[name] for name in ("setup", "limits.max_steps")] == [["make"], ["7"]]
    assert lines["validate"] == ["none", "(default)"]
    assert " ".join(lines["protected_paths"]) == "the list of this version alone"
    assert not [name for name, words in lines.items() if "-" in words]


def test_config_show_names_the_variable_of_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_MODE", "mock")
    assert shown_lines()["execution_environment"] == ["mock", "AGENT_MODE"]


def shown_lines() -> dict[str, list[str]]:
    lines = typed("config", "show", "--origin").stdout.splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines}


def test_config_show_writes_shared_budgets_as_they_are_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert shown_lines()["budget"] == ["no", "shared", "limit", "default"]
    assert data("config", "show")["settings"]["budget"] == {"value": None, "origin": "default"}
    said = "{day_usd: 2.5, total_steps: 5000, project_tokens: 3000000, day_time: 2h}"
    monkeypatch.setenv("PATCHYARD_BUDGET", said)
    found = {key: words for key, words in shown_lines().items() if key.startswith("budget")}
    assert found == {
        "budget.day_time": ["2h", "PATCHYARD_BUDGET"],
        "budget.day_usd": ["2.5", "PATCHYARD_BUDGET"],
        "budget.project_tokens": ["3000000", "PATCHYARD_BUDGET"],
        "budget.total_steps": ["5000", "PATCHYARD_BUDGET"],
    }


def test_a_projects_budget_in_whole_numbers_is_shown_in_whole_numbers() -> None:
    words = ["context", "set", "budget", "{project_tokens: 3000000, project_usd: 2.5}"]
    assert CliRunner().invoke(project, words).exit_code == 0
    shown = CliRunner().invoke(project, ["context", "show"]).stdout
    assert "budget: project_tokens 3000000, project_usd 2.5" in shown
    assert shown_lines()["budget.project_tokens"][0] == "3000000"


def test_config_show_names_what_is_ignored_beside_the_table(top: Path) -> None:
    settings_file(top, "mounts: [/opt/x]\n")
    result = typed("config", "show")
    assert "until `agents trust`: mounts" in result.stderr
    assert "agents trust" not in result.stdout


def test_config_check_tells_what_trust_brings_and_what_it_never_does(top: Path) -> None:
    settings_file(top, "budget: {day_usd: 1}\nmounts: [/opt/x]\nslots: {per_project: 9}\n")
    always = "budget, slots (never a repository's to decide)"
    said = typed("config", "check").stdout
    assert f"until `agents trust`: mounts; with or without it: {always}" in said
    assert f"ignored from this repository's settings: {always}" in typed("trust").stdout


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *[(3600.0, "1h"), (5400, "90m"), (90, "90s"), (0.5, "0.5s"), (86400, "24h")],
        *[(1_234_567, "1234567s"), (0.00001, "1e-05s"), (3.6e9, "1000000h")],
    ],
)
def test_a_duration_is_said_as_it_is_written(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("setup: [a]\nvaildate: [b]\n", ".patchyard/config.yaml:2:1: vaildate: unknown key"),
        ("execution_environment: dokcer\n", "config.yaml:1:1: execution_environment: unknown"),
        ("role: tester\nexecution_environment: remote\n", "config.yaml:2:1: execution_environment"),
        ("execution_env_priority: []\n", "config.yaml:1:1: execution_env_priority: [] is neither"),
        ("safety: {categories: [[]]}\n", "config.yaml:1:23: safety.categories[0]: [] is none"),
        ("tools:\n  grep_search: {execution_environment: pod}\n", "config.yaml:2:17: tools"),
        (
            "mcp_servers:\n  fs: {command: x, argz: []}\n",
            "config.yaml:2:20: mcp_servers.fs.argz: unknown key 'argz'; did you mean 'args'?",
        ),
        ("providers: {}\n", "stand in models.yaml"),
        ("roles: {tester: {provider: ollama}}\n", "stand in models.yaml"),
        ("gates: {lint: {use: ruff, scope: change}}\n", "Did you mean 'changed'?"),
        ("gates: {pytest: true}\n", "such as `tests: pytest`"),
        ("gates: {fast: performance}\n", "measures a command of yours"),
    ],
)
def test_config_check_names_the_place_of_a_mistake(top: Path, text: str, said: str) -> None:
    settings_file(top, text)
    result = typed("config", "check")
    assert result.exit_code == 2
    assert said in result.stderr


def test_the_known_keys_are_those_that_can_be_set(top: Path) -> None:
    settings_file(top, "vaildate: []\n")
    known = typed("config", "check").stderr.partition("known: ")[2].strip().split(", ")
    assert {"validate", "limits"} <= {*known}
    assert not {"adapters", "forges", "hosts", "providers"} & {*known}


def test_a_variable_of_all_limits_names_those_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHYARD_LIMITS", "{max_steps: 3}")
    told = typed("config", "show").stderr
    assert "each limit has a variable of its own: PATCHYARD_BUDGET_USD, " in told
    assert "PATCHYARD_MAX_STEPS" in told


@pytest.mark.parametrize(
    ("mode", "said"),
    [("mcok", "Did you mean 'mock'?"), ("remote", "environment 'remote' is not in this version")],
)
def test_config_check_names_the_mode_of_a_variable_that_there_is_not(
    monkeypatch: pytest.MonkeyPatch, mode: str, said: str
) -> None:
    monkeypatch.setenv("AGENT_MODE", mode)
    result = typed("config", "check")
    assert (result.exit_code, said in result.stderr) == (2, True)
    assert "error: AGENT_MODE: " in result.stderr


@pytest.mark.parametrize(
    ("text", "said", "known"),
    [
        ("role: tester\nautomation_profile: bogus\n", "automation profile 'bogus'", "full-auto"),
        ("role: tester\nagent: nobody\n", "agent 'nobody'", "recipe"),
        ("role: tester\napply: wortree\n", "destination 'wortree'", "worktree"),
        ("agent: model\nrole: testr\n", "role 'testr'", "tester"),
        ("role: tester\napprovals: nonsense\n", "approval 'nonsense'", "execute_command"),
        ("execution_environment: x\n", "execution environment 'x'", "process"),
    ],
)
def test_config_check_names_the_place_of_a_name_that_there_is_not(
    top: Path, text: str, said: str, known: str
) -> None:
    settings_file(top, text)
    result = typed("config", "check", "--format", "json")
    error = json.loads(result.stdout)["error"]
    line = text.count("\n")
    assert (result.exit_code, error["code"]) == (2, "bad_file")
    assert error["message"].startswith(f".patchyard/config.yaml:{line}:1: ")
    assert f"unknown {said}" in error["message"]
    assert known in error["hint"]
    assert known in error["details"]["known"]
    assert (error["details"]["line"], error["details"]["column"]) == (line, 1)


def test_config_check_names_the_item_of_a_list_and_the_form_of_a_model(top: Path) -> None:
    for text, said in (
        ("approvals:\n  - apply\n  - aply\n", "config.yaml:3:5: approvals[1]: unknown approval"),
        ("tools:\n  nul: {execution_environment: process}\n", "config.yaml:2:3: tools"),
        (
            "tools:\n  grep_search: {preference: specific, target_resource: b}\n",
            "config.yaml:2:39: tools",
        ),
        ("execution_environment: dokcer\n", "config.yaml:1:1: execution_environment: unknown"),
        ("roles: [developer, architect]\n", "config.yaml:1:20: roles[1]: architect gives record"),
        ('model: "nocolon"\n', "config.yaml:1:1: model: 'nocolon' names no model"),
    ):
        settings_file(top, text)
        result = typed("config", "check")
        assert result.exit_code == 2
        assert said in result.stderr
    assert "write PROVIDER:MODEL" in result.stderr


def test_config_check_knows_the_servers_of_the_project(top: Path) -> None:
    settings_file(top, "approvals: [mcp__fs]\n")
    assert typed("config", "check").exit_code == 2
    words = ("project", "context", "set", "mcp_servers", "{fs: {command: node}}")
    assert CliRunner().invoke(project, words[1:]).exit_code == 0
    result = typed("config", "check")
    assert (result.exit_code, result.stderr) == (0, "")


def test_config_check_looks_at_the_users_models(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_file(top, "setup: [make]\n")
    folder = tmp_path / "own" / "patchyard"
    folder.mkdir(parents=True)
    (folder / "models.yaml").write_text("roles:\n  develper: {}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent))
    result = typed("config", "check")
    assert result.exit_code == 2
    assert "models.yaml:2:3: roles.develper: unknown role" in result.stderr


def test_config_check_passes_right_files_and_names_what_is_ignored(top: Path) -> None:
    settings_file(top, "mounts: [/opt/x]\nsetup: [make]\n")
    result = typed("config", "check")
    assert result.exit_code == 0
    assert "until `agents trust`: mounts" in result.stdout
