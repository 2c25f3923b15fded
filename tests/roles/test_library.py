"""Roles as files: those of the package, the user's own, and what is said of their mistakes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from patchyard.domain.codec import from_json, to_json
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.limit_settings import LimitSettings
from patchyard.domain.role import Output, Role
from patchyard.domain.shipped_gates import SHIPPED as SHIPPED_GATES
from patchyard.roles.library import SHIPPED, all_roles, role_named, role_names, strays
from patchyard.tools.toolset import NINE


def own(folder: Path, policy: str, prompt: str = "Translate.", name: str = "translator") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(policy)
    (folder / f"{name}.md").write_text(prompt)
    return folder


def test_the_shipped_roles_have_words_and_capabilities(tmp_path: Path) -> None:
    found = all_roles(tmp_path, tools=NINE)
    assert tuple(found) == SHIPPED
    for each in found.values():
        assert each.prompt
        assert each.purpose
        assert each.capabilities
        assert each.expertise
    assert [str(found[name].output) for name in SHIPPED] == [
        *("record", "changes", "findings", "tests")
    ]
    assert not found["reviewer"].may_use("write_file")
    assert found["reviewer"].may_use("read_output")
    assert found["developer"].may_use("anything")


def test_own_roles_stand_beside_them_and_go_before_them(tmp_path: Path) -> None:
    policy = "purpose: p\noutput: findings\ntools: [read_file, mcp__x__y]\nenvironments: [vm]\n"
    folder = own(tmp_path / "roles", policy)
    own(folder, "", "Mine.", name="developer")
    assert "translator" in role_names(folder)
    found = role_named("translator", folder, tools=NINE)
    assert (found.output, found.environments, found.prompt) == (
        Output.FINDINGS,
        ("vm",),
        "Translate.",
    )
    assert found.may_use("mcp__x__y")
    mine = role_named("developer", folder, tools=NINE)
    assert (mine.prompt, mine.source) == ("Mine.", str(folder / "developer.yaml"))


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("output: nothing\n", ":1:1: output: unknown output 'nothing'"),
        ("purpose: p\ntools: [read_fil]\n", ":2:9: tools[0]: unknown tool 'read_fil'. Did you me"),
        ("environments: [moon]\n", "unknown kind of environment 'moon'"),
        ("tools: [read_file, read_file]\n", "'read_file' stands twice"),
        ("tolls: []\n", "unknown key 'tolls'; did you mean 'tools'?"),
        ("title: [a]\n", "title: must be text"),
        ("- a\n", "must be a mapping, not a list"),
        ("output: answer\ntools: [grep_search, write_file]\n", ":2:22: tools[1]: a role that g"),
        ("purpose: p\nmay_ask: [revewer]\n", ":2:11: may_ask[0]: unknown role 'revewer'. Did"),
        ("may_ask: [translator]\n", ":1:11: may_ask[0]: a role cannot ask itself"),
        ("max_asks: many\n", ":1:1: max_asks: must be a whole number, 0 or more"),
        (f"expertise: [a, {'x' * 41}]\n", ":1:16: expertise[1]: 'xxx"),
        ("purpose: p\ntools: []\n", ":2:1: tools: the list is empty"),
        ("tools: [read_file, mcp__]\n", ":1:20: tools[1]: 'mcp__' names no server's tools"),
        ("tools: [mcp__fs__]\n", "'mcp__fs__' names no server's tools"),
        ("environments: []\n", ":1:1: environments: the list is empty"),
        ("limits: {max_step: 9}\n", ":1:10: limits.max_step: unknown key 'max_step'; did you"),
        ("limits:\n  timeout: soon\n", ":2:3: limits.timeout: 'soon' is not a duration"),
        ("gates: {lint: rufff}\n", ":1:9: gates.lint: unknown gate 'rufff'. Did you mean 'ruff"),
        ("output: record\ngates: {a: ruff}\n", ":2:1: gates: a role that gives record leaves"),
        ("capabilities: [a, a]\n", "capabilities[1]: 'a' stands twice"),
        (f"capabilities: {[f'w{n}' for n in range(21)]}\n", "there are 21, at most 20"),
    ],
)
def test_a_mistake_in_a_policy_is_named_with_its_place(
    policy: str, words: str, tmp_path: Path
) -> None:
    folder = own(tmp_path / "roles", policy)
    with pytest.raises(UsageError) as caught:
        role_named("translator", folder, tools=NINE)
    assert words in caught.value.message
    assert caught.value.message.startswith(str(folder))


def test_what_lies_there_and_is_no_role_is_said(tmp_path: Path) -> None:
    folder = own(tmp_path / "roles", "")
    (folder / "guard.yml").write_text("")
    (folder / "guard.md").write_text("Guard.")
    yml, prompt = strays(folder)
    assert yml.endswith("guard.md is not read: its policy guard.yaml is missing")
    assert prompt.endswith("guard.yml is not read: a policy is called guard.yaml")
    (folder / "guard.yml").rename(folder / "guard.yaml")
    assert strays(folder) == strays(tmp_path / "none") == ()


def test_a_role_needs_a_prompt_of_a_bounded_length_and_a_plain_name(tmp_path: Path) -> None:
    folder = own(tmp_path / "roles", "", "x" * 6001)
    with pytest.raises(UsageError, match="at most 6,000"):
        role_named("translator", folder, tools=NINE)
    (folder / "translator.md").unlink()
    with pytest.raises(UsageError, match=r"translator.md cannot be read"):
        role_named("translator", folder, tools=NINE)
    own(folder, "", name="Big Role")
    with pytest.raises(UsageError, match="no name of a role"):
        role_named("Big Role", folder, tools=NINE)
    with pytest.raises(UnknownName, match="Did you mean 'tester'"):
        role_named("testr", folder, tools=NINE)


def test_a_role_says_its_limits_and_gates_as_settings_do(tmp_path: Path) -> None:
    policy = (
        "limits: {budget_usd: 1, max_steps: 20, timeout: 10m, rounds: 1}\n"
        "gates: {security: bandit, lint: false}\n"
    )
    found = role_named("translator", own(tmp_path / "roles", policy), tools=NINE)
    assert found.limits == LimitSettings(budget_usd=1, max_steps=20, timeout=600.0, rounds=1)
    assert found.gates["lint"] is None
    assert found.gates["security"] == replace(SHIPPED_GATES["bandit"], name="security")
    assert from_json(Role, json.loads(json.dumps(to_json(found)))) == found
    of_before = from_json(Role, {"name": "developer"})
    assert (of_before.limits, of_before.gates) == (LimitSettings(), {})
