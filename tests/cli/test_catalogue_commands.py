"""`agents project|resource|action|invariant` as a user types them."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from engine.worksite import Worksite
from patchyard.cli.action import action
from patchyard.cli.invariant import invariant
from patchyard.cli.plan_use import use
from patchyard.cli.project import project
from patchyard.cli.resource import resource
from patchyard.clients import bubblewrap

GROUPS = {"action": action, "invariant": invariant, "project": project, "resource": resource}


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "my shop"
    (folder / ".git").mkdir(parents=True)
    (folder / "src").mkdir()
    monkeypatch.chdir(folder / "src")
    return folder


def typed(*words: str) -> Result:
    group: click.Command = GROUPS[words[0]]
    return CliRunner().invoke(group, words[1:], catch_exceptions=False, standalone_mode=True)


def data(*words: str) -> Any:
    result = typed(*words, "--format", "json")
    envelope = json.loads(result.stdout)
    assert envelope["status"] == "ok", envelope
    assert (envelope["exit_code"], result.exit_code) == (0, 0)
    return envelope["data"]


def test_the_context_is_set_as_the_source_writes_it(checkout: Path) -> None:
    result = typed("project", "context", "set", "execution_environment", "container")
    assert result.exit_code == 0
    shown = data("project", "show")
    assert shown["execution_environment"] == "container"
    assert shown["repository"] == str(checkout)
    assert shown["is_implicit"]
    data("project", "context", "set", "my-shop", "execution_environment", "host")
    assert data("project", "context", "show")["context"]["execution_environment"] == "host"
    data("project", "context", "set", "execution_environment", "unset")
    after = data("project", "show")
    assert (after["execution_environment"], after["execution_environment_set"]) == ("host", False)


@pytest.mark.service("bubblewrap")
def test_a_new_project_is_confined_and_says_why_and_how_to_take_that_back() -> None:
    made = data("project", "create", "shop")
    assert (made["execution_environment"], made["execution_environment_set"]) == ("process", True)
    assert "nothing was chosen, and `host` has no walls" in made["note"]
    undo = made["note"].split("`agents ")[1].split("`")[0]
    shown = data(*shlex.split(undo)) and data("project", "show")
    assert (shown["execution_environment"], shown["execution_environment_set"]) == ("host", False)


def test_where_no_wall_can_be_had_a_new_project_says_so_with_the_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bubblewrap, "KNOWN_PLACES", ())
    monkeypatch.setenv("PATH", "/nonexistent")
    bubblewrap.find_bubblewrap.cache_clear()
    made = data("project", "create", "shop")
    bubblewrap.find_bubblewrap.cache_clear()
    assert (made["execution_environment"], made["execution_environment_set"]) == ("host", False)
    for word in ("`process` does not work here", "not installed", "WITHOUT WALLS", "apt install"):
        assert word in made["note"]


def test_a_new_project_of_a_checkout_that_has_a_choice_keeps_it_without_a_word() -> None:
    data("project", "context", "set", "execution_environment", "container")
    made = data("project", "create", "shop")
    assert (made["execution_environment"], made["note"]) == ("container", None)


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("validate", "pytest -q", ["pytest -q"]),
        ("validate", "", []),
        ("setup", '["a", "b"]', ["a", "b"]),
        ("protected_paths", "db/*, x", ["db/*", "x"]),
        ("limits", "{max_steps: 5}", {"max_steps": 5}),
        ("environment_limits", "{memory: 1G, cpus: 2}", {"memory": 1024**3, "cpus": 2.0}),
        ("execution_env_discovery", "true", True),
        ("execution_env_priority", "fallback", "fallback"),
    ],
)
def test_each_key_of_the_context_is_kept(key: str, value: str, kept: Any) -> None:
    assert data("project", "context", "set", key, value)["context"][key] == kept


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["project", "context", "set", "execution_environment", "dokcer"], 2, "docker"),
        (["project", "context", "set", "execution_environment", "pod"], 2, "host, mock, process"),
        (["project", "context", "set", "executon_environment", "x"], 2, "execution_environment"),
        (["project", "context", "set", "validate"], 2, "KEY VALUE"),
        (["project", "show", "absent"], 2, "unknown project"),
        (["project", "create", "p", "--repo", "http://example.invalid/x.git"], 2, "say https://"),
        (["project", "create", "p", "--repo", "/"], 2, "git init"),
        (["resource", "add", "kubernetes", "v"], 2, "directory, git-checkout"),
        (["resource", "add", "directory", "d", "--path", "/absent"], 2, "no folder"),
        (["resource", "add", "directory", "d", "--execution-environment", "x"], 2, "known:"),
        (["action", "show", "absent"], 2, "licence-headers"),
        (["invariant", "add", "t", "--global", "--project", "p"], 2, "one scope"),
        (["invariant", "add", "t", "--action", "absent"], 2, "unknown action"),
    ],
)
def test_a_mistake_names_the_cure(words: list[str], code: int, said: str) -> None:
    result = typed(*words)
    assert result.exit_code == code
    assert said in result.stderr


def test_projects_are_made_listed_linked_and_deleted(checkout: Path) -> None:
    made = data("project", "create", "shop", "--repo", str(checkout))
    assert made["context"]["execution_environment"] in {"process", None}
    data("resource", "add", "git-checkout", "code", "--execution-environment", "process")
    data("resource", "add", "directory", "files", "--path", os.curdir)
    assert data("project", "link-resource", "shop", "code")["resources"] == ["code"]
    assert [p["name"] for p in data("project", "list")["projects"]] == ["shop"]
    assert [r["name"] for r in data("resource", "list")["resources"]] == ["code", "files"]
    assert data("resource", "show", "code")["location"] == str(checkout)
    data("resource", "remove", "code")
    assert data("project", "show", "shop")["resources"] == []
    data("project", "delete", "shop")
    assert typed("project", "list").stdout == "no projects\n"


def test_an_action_is_checked_kept_and_shown(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("name: greet\ngoal: greet {who}\narguments: {who: {required: true}}\n")
    assert data("action", "create", "--file", str(file))["actor"] == "model"
    assert "--arg who=..." in typed("action", "show", "greet").stdout
    listed = {a["name"]: a["source"] for a in data("action", "list")["actions"]}
    assert listed == {"greet": str(file), "licence-headers": "shipped"}
    file.write_text("name: greet\ngoal: x\nsteps:\n  - run: a\n  - rum: b\n")
    result = typed("action", "create", "--file", str(file))
    assert result.exit_code == 2
    assert f"{file}:5:5: steps[1].rum: unknown key 'rum'; did you mean 'run'?" in result.stderr


def test_a_role_that_an_action_names_is_one_that_there_is(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("name: greet\ngoal: x\nrole: revewer\n")
    result = typed("action", "create", "--file", str(file))
    assert result.exit_code == 2
    said = f"{file}:3:1: role: unknown role 'revewer'. Did you mean 'reviewer'?"
    assert said in result.stderr
    file.write_text("name: greet\ngoal: x\nrole: reviewer\n")
    assert data("action", "create", "--file", str(file))["role"] == "reviewer"


def test_the_steps_of_an_action_are_shown_as_they_are_written() -> None:
    shown = typed("action", "show", "licence-headers").output
    assert "\nsteps:\n  - name: put licence headers" in shown
    assert "\n    replace:\n      files: **/*" in shown
    assert "{'" not in shown


def test_an_arguments_default_is_the_text_that_is_written(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    defaults = {"a": "1.10", "b": "3", "c": "yes", "d": "true", "e": "0x1F", "f": '"quoted"'}
    arguments = ", ".join(f"{name}: {{default: {text}}}" for name, text in defaults.items())
    file.write_text(f"name: x\ngoal: g\narguments: {{{arguments}}}\n")
    found = data("action", "create", "--file", str(file))["arguments"]
    assert {name: found[name]["default"] for name in defaults} == {**defaults, "f": "quoted"}
    file.write_text("name: x\ngoal: 3\n")
    assert "goal: must be text" in typed("action", "create", "--file", str(file)).stderr


def test_an_invariant_of_one_plan_keeps_all_that_was_said_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Worksite.make(tmp_path, {"a.txt": "one\n"})
    monkeypatch.chdir(made.repository)
    file = tmp_path / "a.yaml"
    file.write_text("name: x\ngoal: g\n")
    data("action", "create", "--file", str(file))
    data("project", "create", "shop")
    words = ("shop", "--model", "openai:x", "--no-strategize", "--format", "json")
    CliRunner().invoke(use, ["x", *words], catch_exceptions=False)
    added = data("invariant", "add", "t", "--plan", "@last", "--check", "true", "--non-overridable")
    assert (added["scope"], added["check"], added["non_overridable"]) == ("plan", "true", True)


def test_invariants_are_added_listed_and_removed() -> None:
    made = data("invariant", "add", "API stays", "--check", "true", "--non-overridable")
    assert made["scope"] == "global"
    data("invariant", "add", "headers", "--action", "licence-headers")
    texts = [i["text"] for i in data("invariant", "list")["invariants"]]
    assert texts == ["API stays", "headers"]
    assert data("invariant", "remove", made["invariant_id"])["text"] == "API stays"
    assert "headers" in typed("invariant", "list").stdout


def test_a_resource_has_limits_of_its_own() -> None:
    words = ("--image", "py3", "--memory", "2G", "--cpu-time", "10m", "--processes", "64")
    made = data("resource", "add", "container-instance", "box", *words)
    assert made["limits"] == {"memory": 2 * 1024**3, "cpu_time": 600.0, "processes": 64}
    shown = typed("resource", "show", "box").stdout
    assert shown.splitlines() == [
        "name: box",
        "type: container-instance",
        "image: py3",
        "limits: cpu_time 600 s, memory 2 GiB, processes 64",
    ]


def test_a_link_can_be_taken_back_and_what_is_still_set_is_said() -> None:
    assert "there is none yet: `agents resource add" in typed("resource", "show", "box").stderr
    assert "there is none yet: `agents project create" in typed("project", "show", "shop").stderr
    assert "Did you mean 'directory'?" in typed("resource", "add", "directry", "files").stderr
    data("project", "create", "shop")
    data("resource", "add", "container-instance", "box", "--image", "py3")
    data("resource", "add", "directory", "files")
    for name in ("box", "files"):
        data("project", "link-resource", "shop", name)
    typed("project", "context", "set", "execution_environment", "box")
    wrong = typed("project", "unlink-resource", "shop", "bax")
    assert (wrong.exit_code, "Did you mean 'box'?" in wrong.stderr) == (2, True), wrong.stderr
    assert "known: box, files" in wrong.stderr
    said = typed("project", "unlink-resource", "shop", "box").stdout
    assert "unlinked box from shop\nshop is still set to work there" in said
    assert data("project", "show", "shop")["resources"] == ["files"]
    assert typed("project", "unlink-resource", "shop", "box").exit_code == 2
    data("project", "link-resource", "shop", "box")
    removed = typed("resource", "remove", "box").stdout
    assert "removed box, unlinked from shop\nshop is still set to work there" in removed
    assert typed("resource", "remove", "files", "--format", "rich").stdout.endswith("from shop\n")


def test_a_checkout_that_is_removed_takes_the_devcontainers_found_in_it_along(
    checkout: Path,
) -> None:
    for folder in (".devcontainer", ".devcontainer/web"):
        (checkout / folder).mkdir()
        (checkout / folder / "devcontainer.json").write_text('{"image": "py3"}')
    found = ["co-devcontainer", "co-devcontainer-web"]
    data("project", "create", "shop")
    assert data("resource", "add", "git-checkout", "co")["discovered"] == found
    data("resource", "add", "devcontainer-instance", "own")  # somebody's own, of the same file
    data("project", "link-resource", "shop", found[0])
    typed("project", "context", "set", "execution_environment", found[0])
    removed = typed("resource", "remove", "co").stdout.splitlines()
    assert removed[:2] == [
        "removed co",
        "removed co-devcontainer, which was discovered in co, unlinked from shop",
    ]
    assert "shop is still set to work there" in removed[2]
    assert removed[3] == "removed co-devcontainer-web, which was discovered in co"
    assert [each["name"] for each in data("resource", "list")["resources"]] == ["own"]
    assert data("resource", "add", "git-checkout", "co")["discovered"] == found
    gone = data("resource", "remove", "co")
    assert (gone["unlinked"], gone["discovered"]) == ([], {name: [] for name in found})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["container-instance", "b", "--image", "i", "--memory", "0"], "--memory: must be 32 MiB"),
        (["container-instance", "b", "--image", "i", "--memory", "8M"], "the least is 32 MiB"),
        (["container-instance", "b", "--image", "i", "--open-files", "-3"], "--open-files: must"),
        (["directory", "d", "--memory", "1G"], "--memory is not for directory"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_with_the_least(words: list[str], said: str) -> None:
    result = typed("resource", "add", *words)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
