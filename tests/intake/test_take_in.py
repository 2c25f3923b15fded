"""From what was asked to a plan's spec: precedence, routing levels, trust, detection, scopes."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from intake.taking_in import held, taken
from patchyard.clients.glimpse import glimpse
from patchyard.configuration import repository_files, user_file
from patchyard.domain.action import parse_action
from patchyard.domain.durations import parse_duration
from patchyard.domain.environment import ExecutionEnvironment as Kind
from patchyard.domain.errors import UsageError
from patchyard.domain.holdings import Holdings
from patchyard.domain.invariant import Invariant, Scope
from patchyard.domain.limit_settings import LimitSettings
from patchyard.domain.project import Project
from patchyard.engine.sites import general_kind


def written(top: Path, text: str) -> Path:
    file = top / ".patchyard" / "config.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def trusted(top: Path) -> Holdings:
    return Holdings(trusted={str(top): repository_files(glimpse(top, None)).digest})


def test_precedence_of_places(top: Path) -> None:
    path = user_file(os.environ)
    path.parent.mkdir(parents=True)
    path.write_text("validate: [user]\nmodel: house:user\nlimits: {max_steps: 40, budget_usd: 3}\n")
    written(top, "validate: [repository]\nlimits: {max_steps: 30, budget_usd: 4, rounds: 1}\n")
    first = taken(top).spec
    assert (first.validate, first.model) == (("user",), "house:user")
    assert (first.limits.steps, first.limits.usd, first.rounds) == (30, 3.0, 1)
    project = Project(
        name="p", repository=str(top), validate=("project",), limits=LimitSettings(max_steps=60)
    )
    second = taken(top, held(project)).spec
    assert (second.validate, second.limits.steps) == (("project",), 60)
    environ = {"PATCHYARD_VALIDATE": "variable", "PATCHYARD_MAX_STEPS": "70"}
    third = taken(top, held(project), environ=environ).spec
    assert (third.validate, third.limits.steps) == (("variable",), 70)
    fourth = taken(top, held(project), environ=environ, validate=("option",), steps=80).spec
    assert (fourth.validate, fourth.limits.steps) == (("option",), 80)


def test_an_untrusted_repository_decides_nothing_that_reaches_further(top: Path) -> None:
    written(
        top,
        "execution_environment: vm\nmounts: [/etc]\nvariables: {A: b}\nallow_paths: ['*']\n"
        "model: openai:x\napply: worktree\nlimits: {budget_usd: 99}\nmcp_servers: {x: {}}\n"
        "setup: [make deps]\nprotected_paths: [db/*]\n",
    )
    intake = taken(top)
    spec = intake.spec
    assert spec.environment == Kind.PROCESS
    assert (spec.mounts, spec.variables, spec.allow_paths) == ((), {}, ())
    assert (spec.model, spec.apply_to, spec.limits.usd) == ("", "none", 5.0)
    assert spec.setup == ("make deps",)
    assert spec.protected_paths == ("db/*",)
    assert len(intake.warnings) == 1
    for name in ("execution_environment", "mounts", "mcp_servers", "limits.budget_usd"):
        assert name in intake.warnings[0]


def test_trust_is_void_when_any_settings_file_changes(top: Path) -> None:
    file = written(top, "allow_paths: [db/*]\n")
    holdings = trusted(top)
    assert taken(top, holdings).spec.allow_paths == ("db/*",)
    assert taken(top, holdings).warnings == ()
    (file.parent / "models.yaml").write_text("roles: {}\n")
    assert taken(top, holdings).spec.allow_paths == ()


def test_even_a_trusted_repository_cannot_name_host(top: Path) -> None:
    written(top, "execution_environment: host\n")
    intake = taken(top, trusted(top))
    assert general_kind(intake.spec) == Kind.PROCESS
    assert "never a repository's" in intake.warnings[0]


def test_settings_are_read_from_the_base_that_is_worked_on(top: Path) -> None:
    written(top, "validate: [committed]\n")
    subprocess.run(["git", "add", "-A"], cwd=top, check=True)
    name = ["-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", *name, "commit", "-q", "-m", "m"], cwd=top, check=True)
    written(top, "validate: [edited]\n")
    assert taken(top).spec.validate == ("edited",)
    assert taken(top, ref="head").spec.validate == ("committed",)
    assert taken(top, ref="HEAD~1").spec.validate == ()
    with pytest.raises(UsageError, match="no commit"):
        taken(top, ref="--absent")


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_a_settings_file_that_is_no_file_is_never_followed(top: Path, kind: str) -> None:
    (top / ".patchyard").mkdir()
    place = top / ".patchyard" / "config.yaml"
    (top / "elsewhere").write_text("validate: [x]\n")
    if kind == "link":
        place.symlink_to(top / "elsewhere")
    elif kind == "fifo":
        os.mkfifo(place)
    else:
        place.mkdir()
    intake = taken(top)
    assert intake.spec.validate == ()
    names = {"fifo": "special file"}
    assert f".patchyard/config.yaml is a {names.get(kind, kind)}" in intake.warnings[0]


def test_a_settings_folder_that_is_a_link_is_named_in_a_commit_too(top: Path) -> None:
    (top / ".patchyard").symlink_to(top)
    subprocess.run(["git", "add", "-A"], cwd=top, check=True)
    name = ["-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", *name, "commit", "-q", "-m", "m"], cwd=top, check=True)
    for ref in (None, "head"):
        assert ".patchyard is a link, not a folder" in taken(top, ref=ref).warnings[0]
    assert taken(top, ref="HEAD~1").warnings == ()


def test_a_settings_file_that_is_too_large_is_named(top: Path) -> None:
    written(top, "#" * 1_000_001)
    assert "too large" in taken(top).warnings[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("PATCHYARD_MODLE", "did you mean PATCHYARD_MODEL?"),
        ("PATCHYARD_HOEM", "did you mean PATCHYARD_HOME?"),
        ("PATCHYARD_ZZZ", "PATCHYARD_ZZZ is no setting"),
        ("PATCHYARD_X", "PATCHYARD_X is no setting"),
    ],
)
def test_a_variable_that_nothing_reads_is_named_without_its_value(
    top: Path, name: str, said: str
) -> None:
    (warning,) = taken(top, environ={name: "s3cret"}).warnings
    assert said in warning
    assert "s3cret" not in warning
    assert ("did you mean" in warning) == ("did you mean" in said)


def test_variables_that_are_read_are_no_reason_for_a_warning(top: Path) -> None:
    environ = {"PATCHYARD_MODEL": "a:b", "PATCHYARD_TIMEOUT": "1h", "PATCHYARD_HOME": "/x"}
    assert taken(top, environ={**environ, "PATCHYARD_SOAK": "1"}).warnings == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vaildate: [x]\n", "config.yaml:1:1: vaildate: unknown key 'vaildate'; did you mean 'val"),
        ("setup: []\nsetup: []\n", "config.yaml:2:1: setup: the key 'setup' stands twice"),
        ("limits:\n  max_step: 1\n", "config.yaml:2:3: limits.max_step: unknown key"),
        ("- x\n", "config.yaml:1:1: must be a mapping"),
        ("setup: [", "config.yaml:1:9"),
    ],
)
def test_a_mistake_in_the_file_has_a_line_and_a_column(top: Path, text: str, said: str) -> None:
    written(top, text)
    with pytest.raises(UsageError) as caught:
        taken(top)
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"PATCHYARD_EXECUTION_ENVIRONMENT": "dokcer"}, "PATCHYARD_EXECUTION_ENVIRONMENT"),
        ({"AGENT_MODE": "mcok"}, "^AGENT_MODE: .*Did you mean 'mock'"),
        ({"AGENT_MODE": "remote"}, "^AGENT_MODE: the environment 'remote' is not in this version$"),
        ({"PATCHYARD_MAX_STEPS": "many"}, "^PATCHYARD_MAX_STEPS: must be a whole number"),
        (
            {"PATCHYARD_BUDGET": "{day_usd: 1, total_tokens: x}"},
            r"^PATCHYARD_BUDGET: budget\.total_tokens: must be a number",
        ),
        (
            {"PATCHYARD_SLOTS": "{per_project: 1, projects: {shop: 0}}"},
            r"^PATCHYARD_SLOTS: slots\.projects\.shop: must be a whole number",
        ),
        ({"PATCHYARD_POOL": "{size: -1}"}, r"^PATCHYARD_POOL: pool\.size: must be a whole number"),
        ({"PATCHYARD_POOL": "{age: 2h}"}, r"^PATCHYARD_POOL: pool\.age: must be .* at most 30m"),
        ({"PATCHYARD_KEEP": "{workspaces: x}"}, r"^PATCHYARD_KEEP: keep\.workspaces: "),
    ],
)
def test_a_mistake_in_a_variable_names_it(top: Path, environ: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        taken(top, environ=environ)
    assert re.search(said, caught.value.message)


def test_commands_are_found_in_the_base_and_said(top: Path) -> None:
    (top / "Makefile").write_text("test:\n\ttrue\n")
    intake = taken(top)
    assert intake.spec.validate == ("make test",)
    assert "--validate ''" in intake.notes[0]
    off = taken(top, validate=("",))
    assert (off.spec.validate, off.notes) == ((), ())
    assert taken(top, setup=("x",)).spec.validate == ()


def test_invariants_of_all_scopes_reach_the_plan(top: Path) -> None:
    written(top, "invariants: [{text: of the repository, check: 'true'}]\n")
    path = user_file(os.environ)
    path.parent.mkdir(parents=True)
    path.write_text("invariants: [of the user]\n")
    action = parse_action({"name": "a", "goal": "g", "invariants": ["of the action file"]})
    targets = {Scope.GLOBAL: "", Scope.PROJECT: "p", Scope.ACTION: "a"}
    kept = [
        Invariant(invariant_id=scope, text=f"held {scope}", scope=scope, target=target)
        for scope, target in targets.items()
    ]
    other = Invariant(invariant_id="o", text="of another", scope=Scope.PROJECT, target="other")
    holdings = held(Project(name="p", repository=str(top)), invariants=(*kept, other))
    spec = taken(top, holdings, action=action).spec
    assert {i.text: i.scope for i in spec.invariants} == {
        "held global": Scope.GLOBAL,
        "held project": Scope.PROJECT,
        "held action": Scope.ACTION,
        "of the repository": Scope.PROJECT,
        "of the user": Scope.GLOBAL,
        "of the action file": Scope.ACTION,
    }


def test_an_action_makes_the_plan_and_options_win_over_it(top: Path) -> None:
    body = {
        "name": "a",
        "arguments": {"x": {"required": True}},
        "steps": [{"run": "echo {x}"}],
        "definition_of_done": ["{x} is said"],
        "validate": ["test {x}"],
    }
    holdings = held(Project(name="p", repository=str(top), validate=("of the project",)))
    asked = {"action": parse_action(body), "arguments": {"x": "a b"}, "has_run_default": False}
    spec = taken(top, holdings, project="p", **asked).spec
    assert (spec.agent, spec.action, spec.project) == ("recipe", "a", "p")
    assert spec.validate == ("test 'a b'",)
    assert spec.definition_of_done == ("a b is said",)
    assert spec.limits.steps is None
    assert spec.limits.seconds == 3600.0
    assert taken(top, holdings, validate=("mine",), **asked).spec.validate == ("mine",)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"apply_to": "wortree"}, "'worktree'"),
        ({"usd": -1.0}, "--budget-usd"),
        ({"rounds": -1}, "--rounds"),
        ({"variables": ("1A=b",)}, "NAME=VALUE"),
        ({"variables": ("ABSENT_VARIABLE",)}, "no such variable"),
        ({"variables": ("MY_TOKEN=x",)}, "credential"),
        ({"variables": ("X=ghp_abc",)}, "credential"),
        ({"project": "absent"}, "unknown project"),
    ],
)
def test_what_does_not_fit_is_named(top: Path, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        taken(top, **asked)


def test_variables_and_durations_are_read(top: Path) -> None:
    spec = taken(top, variables=("A=b=c", "LANG"), environ={"LANG": "C"}).spec
    assert spec.variables == {"A": "b=c", "LANG": "C"}
    assert [parse_duration(text) for text in ("90s", "30m", "1h", "2")] == [90, 1800, 3600, 2]
    for text in ("", "x", "-1s", "0"):
        with pytest.raises(UsageError, match="duration"):
            parse_duration(text)


@pytest.mark.parametrize(("said", "cure"), [("=x", "--env LANG=C"), ("NONE", "say NAME=VALUE")])
def test_a_variable_that_is_none_has_a_cure(top: Path, said: str, cure: str) -> None:
    with pytest.raises(UsageError, match=f"--env '{said}'") as refused:
        taken(top, variables=(said,))
    assert cure in refused.value.hint


def test_a_subfolder_means_its_checkout(top: Path) -> None:
    (top / "deep" / "er").mkdir(parents=True)
    assert taken(top / "deep" / "er").spec.repository == str(top)


def test_files_of_a_model_are_found_again_wherever_a_plan_is_resumed(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(top)
    spec = taken(top, model="scripted:../s.yaml", record_to="talk.jsonl").spec
    assert spec.model == f"scripted:{top}/../s.yaml"
    assert spec.record_to == f"{top}/talk.jsonl"
    assert taken(top, model="ollama:llama3.1:8b").spec.model == "ollama:llama3.1:8b"
