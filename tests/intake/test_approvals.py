"""Profiles, approvals and the safety profile on their way from settings to a plan's spec."""

import re
import subprocess
from pathlib import Path

import pytest

from patchyard.assembly import open_equipment
from patchyard.configuration import user_file
from patchyard.domain.action import parse_action
from patchyard.domain.budget import NANO
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.faults import Fault
from patchyard.domain.holdings import Holdings
from patchyard.domain.plan import PROFILES
from patchyard.domain.project import Project, context_value
from patchyard.intake import Asked, Intake, take_in


@pytest.fixture
def top(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "shop"], cwd=tmp_path, check=True)
    return tmp_path / "shop"


def taken(top: Path, *, profile: str | None = None, **environ: str) -> Intake:
    asked = Asked(task="t", repository=str(top), automation_profile=profile)
    return take_in(asked, {"HOME": str(top), "PATH": "", **environ}, Holdings())


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_of_the_table_is_known_and_needs_no_warning(top: Path, profile: str) -> None:
    intake = taken(top, profile=profile)
    assert (intake.spec.automation_profile, intake.warnings) == (profile, ())


def test_an_unknown_profile_is_an_error(top: Path) -> None:
    with pytest.raises(UnknownName, match="unknown automation profile 'supervise'"):
        taken(top, PATCHYARD_AUTOMATION_PROFILE="supervise")


def test_approvals_of_all_places_count_and_an_unknown_one_is_named(top: Path) -> None:
    folder = top / ".patchyard"
    folder.mkdir()
    (folder / "config.yaml").write_text("approvals: [apply]\n")
    subprocess.run(["git", "add", "-A"], cwd=top, check=True)
    spec = taken(top, PATCHYARD_APPROVALS="[execute_command, write]").spec
    assert spec.approvals == ("execute_command", "write", "apply")
    with pytest.raises(UnknownName, match="unknown approval 'aply'"):
        taken(top, PATCHYARD_APPROVALS="aply")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agent: nobody", "1:1: agent: unknown agent 'nobody'"),
        ("automation_profile: bogus", "1:1: automation_profile: unknown automation profile"),
        ("model: nocolon", "1:1: model: 'nocolon' names no model"),
        ("approvals: [apply, nonsense]", r"1:20: approvals\[1\]: unknown approval 'nonsense'"),
        ("tools: {cmd: {execution_environment: process}}", "1:9: tools.cmd: unknown tool 'cmd'"),
        (
            "mounts: [/nonexistent/a]",
            r"1:10: mounts\[0\]: /nonexistent/a is refused: it is not there",
        ),
        ("include: [.env]", r"1:11: include\[0\]: '.env' is refused: it looks like a key"),
    ],
)
def test_a_name_in_a_file_that_there_is_not_is_told_with_its_place(
    top: Path, text: str, said: str
) -> None:
    path = user_file({"HOME": str(top)})
    path.parent.mkdir(parents=True)
    path.write_text(f"{text}\n")
    with pytest.raises(UsageError, match=f"^{re.escape(str(path))}:{said}") as caught:
        taken(top)
    assert caught.value.details["file"] == str(path)


def test_a_mount_is_refused_by_the_name_of_where_it_was_said(top: Path) -> None:
    with pytest.raises(UsageError, match=r"^PATCHYARD_MOUNTS: .*/nonexistent/a is refused"):
        taken(top, PATCHYARD_MOUNTS="/nonexistent/a")
    asked = Asked(task="t", repository=str(top), mounts=("/nonexistent/a",))
    with pytest.raises(UsageError, match=r"^--mount /nonexistent/a is refused"):
        take_in(asked, {"HOME": str(top), "PATH": ""}, Holdings())


def test_an_agent_that_there_is_not_is_named_whoever_said_it(top: Path) -> None:
    asked = Asked(task="t", repository=str(top), agent="nobody")
    with pytest.raises(UnknownName, match=r"^unknown agent 'nobody'"):
        take_in(asked, {"HOME": str(top), "PATH": ""}, Holdings())
    with pytest.raises(UnknownName, match=r"^PATCHYARD_AGENT: unknown agent 'nobody'") as caught:
        taken(top, PATCHYARD_AGENT="nobody")
    assert "recipe" in caught.value.details["known"]


def test_a_tool_that_there_is_not_is_named_and_not_passed_over(top: Path) -> None:
    with pytest.raises(UnknownName, match="unknown tool 'execute_comand'") as caught:
        taken(top, PATCHYARD_TOOLS="{execute_comand: {execution_environment: process}}")
    assert "execute_command" in caught.value.hint


def test_the_safety_profile_lowers_the_budget_and_never_raises_it(top: Path) -> None:
    for said, usd in (("{max_cost_per_plan: 0.5}", 0.5), ("{max_cost_per_plan: 50}", 5.0)):
        assert taken(top, PATCHYARD_SAFETY=said).spec.limits.usd == usd


def test_a_wrong_safety_profile_is_named_with_its_place(top: Path) -> None:
    with pytest.raises(
        UsageError, match=r"^PATCHYARD_SAFETY: safety\.require_sandbox: must be true or false"
    ):
        taken(top, PATCHYARD_SAFETY="{require_sandbox: maybe}")


def test_a_profile_is_taken_from_the_plan_then_the_action_then_the_project(top: Path) -> None:
    body = {"name": "a", "goal": "g", "automation_profile": "cautious"}
    project = Project(name="shop", repository=str(top), automation_profile="review")
    holdings = Holdings(projects={"shop": project})

    def profile(*, has_action: bool = False, option: str | None = None) -> str:
        action = parse_action(body) if has_action else None
        asked = Asked(task="t", repository=str(top), action=action, automation_profile=option)
        return take_in(asked, {"HOME": str(top), "PATH": ""}, holdings).spec.automation_profile

    assert profile(has_action=True, option="ci") == "ci"
    assert profile(has_action=True) == "cautious"
    assert profile() == "review"
    with pytest.raises(Fault, match="unknown automation profile"):
        parse_action({**body, "automation_profile": "bold"})
    with pytest.raises(Fault, match="must be the name of a profile"):
        context_value("automation_profile", 3)


@pytest.mark.anyio
async def test_the_safety_profiles_total_bounds_the_whole_installation(tmp_path: Path) -> None:
    said = {"PATCHYARD_SAFETY": "{max_total_cost: 2}", "PATCHYARD_BUDGET": "{total_usd: 7}"}
    environ = {"HOME": str(tmp_path), "PATCHYARD_HOME": str(tmp_path / "home"), **said}
    async with open_equipment(environ) as equipment:
        (bound,) = await equipment.store.budgets.bounds("", "2026-11-21")
    assert bound.account.prefix == "total"
    assert bound.ceiling.nano_usd == 2 * NANO
