"""What must come of each role: reviews, tests that notice, records; who judges cannot write."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite, call, done
from patchyard.domain.errors import PatchyardError, ProofFailed, UsageError, WorkFailed
from patchyard.domain.events import ToolCallSettled
from patchyard.domain.plan import State
from patchyard.engine.report import plan_data
from patchyard.intake import spec_of
from patchyard.making import made

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

BEFORE = "def mean(values):\n    return sum(values) / len(values)\n"
AFTER = BEFORE.replace(":\n", ":\n    if not values:\n        return 0\n", 1)
CHECK = "python3 -m unittest -q"
OLD_TEST = (
    "import unittest\nfrom calc import mean\n\n\nclass Mean(unittest.TestCase):\n"
    "    def test_mean(self):\n        self.assertEqual(mean([1, 3]), 2)\n"
)


def git(site: Worksite, *words: str) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@localhost")
    subprocess.run(["git", *identity, *words], cwd=site.repository, check=True)


def added(body: str) -> str:
    return (
        "import unittest\nfrom calc import mean\n\n\nclass More(unittest.TestCase):\n"
        f"    def test_more(self):\n        {body}\n"
    )


BLIND = added("self.assertEqual(mean([2]), 2)")
SEEING = added("self.assertEqual(mean([]), 0)")
WRONG = {"path": "calc.py", "line": 3, "severity": "error", "message": "raise", "rule": "r"}


@pytest.fixture
def site(tmp_path: Path) -> Worksite:
    """A repository whose checkout holds a change that is not committed."""
    made = Worksite.make(tmp_path, {"calc.py": BEFORE, "test_calc.py": OLD_TEST})
    (made.repository / "calc.py").write_text(AFTER)
    return made


def reviewed(verdict: str, *findings: Mapping[str, Any]) -> dict[str, Any]:
    return call("finish", summary="looked", verdict=verdict, findings=list(findings))


async def worked(
    site: Worksite, *replies: Mapping[str, Any], role: str, **options: Any
) -> tuple[Mapping[str, Any], PatchyardError | None]:
    """Run a plan of that role; its data and what it failed with."""
    error = None
    async with site.open() as (equipment, workflow):
        asked = site.asked_of(site.script(replies), role=role, **options)
        plan_id = await workflow.create(spec_of(asked, site.environ))
        try:
            await workflow.run(plan_id)
        except PatchyardError as failure:
            error = failure
        data = await plan_data(await site.ledger(equipment, plan_id))
    await site.clear()
    return data, error


async def test_a_reviewer_names_the_file_and_the_line(site: Worksite) -> None:
    away = {**WRONG, "line": 99}
    replies = (
        reviewed("request_changes", away),
        reviewed("approve", WRONG),
        reviewed("request_changes", WRONG),
    )
    data, error = await worked(site, *replies, role="reviewer")
    assert error is None
    review = data["review"]
    assert (review["verdict"], review["subject"]) == ("request_changes", "1 uncommitted file")
    (found,) = review["findings"]
    assert (found["path"], found["line"], found["severity"]) == ("calc.py", 3, "error")
    (result,) = review["sarif"]["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 3}
    assert data["changeset"] is None
    assert data["state"] == State.COMPLETE


async def test_a_reviewer_sees_the_change_and_may_approve_it(site: Worksite) -> None:
    data, error = await worked(site, reviewed("approve"), role="reviewer")
    assert error is None
    assert (data["review"]["verdict"], data["review"]["findings"]) == ("approve", [])


async def test_who_judges_cannot_write_by_tool_or_by_command(site: Worksite) -> None:
    replies = (
        call("write_file", path="x", content="x"),
        call("execute_command", command="touch y; echo no > calc.py; ls"),
        reviewed("approve"),
    )
    async with site.open() as (equipment, workflow):
        asked = site.asked_of(site.script(replies), role="reviewer")
        plan_id = await workflow.create(spec_of(asked, site.environ))
        await workflow.run(plan_id)
        ledger = await site.ledger(equipment, plan_id)
        told = [
            json.dumps(await ledger.value(event.data)) + event.message
            for _, _, event in await ledger.events()
            if isinstance(event, ToolCallSettled)
        ]
    await site.clear()
    assert "unknown tool 'write_file'" in told[0]
    assert "Read-only file system" in told[1]
    assert (site.repository / "calc.py").read_text() == AFTER


async def test_what_cannot_be_used_is_sent_back_as_often_as_there_are_rounds(
    site: Worksite,
) -> None:
    replies = [reviewed("perhaps")] * 3
    data, error = await worked(site, *replies, role="reviewer", rounds=1)
    assert isinstance(error, ProofFailed)
    assert "`verdict` must be one of approve, request_changes" in error.message
    assert (data["state"], data["review"]) == (State.CONSTRAINED, None)


async def test_a_tester_adds_a_test_that_fails_without_the_change(site: Worksite) -> None:
    replies = (
        call("write_file", path="test_more.py", content=BLIND),
        done("added"),
        call("write_file", path="test_more.py", content=SEEING),
        done("added one that notices"),
    )
    data, error = await worked(site, *replies, role="tester", validate=(CHECK,))
    assert error is None
    assert data["removal"]["noticed"] == [CHECK]
    assert [each["path"] for each in data["changeset"]["files"]] == ["test_more.py"]
    assert data["validation"][0]["passed"]


@pytest.mark.parametrize(
    ("replies", "words"),
    [
        ((call("write_file", path="test_more.py", content=BLIND), done()), "they prove nothing"),
        (
            (
                call("write_file", path="test_more.py", content=SEEING),
                call("write_file", path="calc.py", content=f"{AFTER}\n"),
                done(),
            ),
            "a tester changes tests only, and calc.py is none",
        ),
    ],
)
async def test_tests_that_prove_nothing_are_not_taken(
    site: Worksite, replies: tuple[Mapping[str, Any], ...], words: str
) -> None:
    _, error = await worked(site, *replies, role="tester", validate=(CHECK,), rounds=0)
    assert isinstance(error, ProofFailed)
    assert words in error.message


async def test_a_tester_neither_hides_a_failing_test_nor_takes_one_away(site: Worksite) -> None:
    (site.repository / "calc.py").write_text(BEFORE.replace("sum(values)", "99 + sum(values)"))
    blessed = added("self.assertEqual(mean([2]), 101)")
    overwrites = (call("write_file", path="test_calc.py", content=blessed), done())
    _, error = await worked(site, *overwrites, role="tester", validate=(CHECK,), rounds=0)
    assert isinstance(error, ProofFailed)
    assert "the proof fails with the change already" in error.message
    (site.repository / "calc.py").write_text(AFTER)
    moves = (call("execute_command", command="git mv calc.py test_x.py; touch calc.py"), done())
    _, error = await worked(site, *moves, role="tester", validate=("true",), rounds=0)
    assert isinstance(error, ProofFailed)
    assert "calc.py is none" in error.message
    takes = (call("delete_file", path="test_calc.py"), done())
    _, error = await worked(site, *takes, role="tester", validate=("true",), rounds=0)
    assert isinstance(error, ProofFailed)
    assert "a tester takes no test away, and test_calc.py is gone" in error.message


async def test_where_the_proof_failed_before_nothing_can_be_noticed(site: Worksite) -> None:
    check = "python3 -c 'import calc; assert calc.mean([]) == 0'"
    replies = (call("write_file", path="test_more.py", content=SEEING), done())
    _, error = await worked(site, *replies, role="tester", validate=(check,), rounds=0)
    assert error is not None
    assert "fails before any test is added" in error.message


async def test_the_last_commit_is_the_subject_where_all_is_committed(site: Worksite) -> None:
    git(site, "commit", "-qam", "fix: none")
    replies = (call("write_file", path="test_more.py", content=SEEING), done())
    data, error = await worked(site, *replies, role="tester", validate=(CHECK,))
    assert error is None
    assert data["removal"]["subject"].endswith("fix: none")


async def test_a_tester_needs_a_change_and_a_command(site: Worksite) -> None:
    with pytest.raises(UsageError, match="no validation command"):
        await worked(site, done(), role="tester", validate=("",))
    git(site, "checkout", "-q", "calc.py")
    async with site.open() as (equipment, _):
        asked = site.asked_of(site.script((done(),)), role="tester", validate=(CHECK,))
        with pytest.raises(UsageError, match="no change that the tests could be about"):
            await made(equipment, spec_of(asked, site.environ))
        assert await equipment.store.summaries.summaries() == []  # so that nothing was paid
    _, error = await worked(site, done(), role="tester", validate=(CHECK,))
    assert isinstance(error, UsageError)
    assert "no change that the tests could be about" in error.message


async def test_an_architect_gives_a_record(site: Worksite) -> None:
    options = [{"name": "raise", "reason": "honest"}, {"name": "zero", "reason": "hides"}]
    texts = {"title": "Empty input raises", "context": "c", "decision": "d", "consequences": "e"}
    replies = (
        call("finish", summary="s", **texts, options=options[:1]),
        call("finish", summary="s", **texts, options=options),
    )
    data, error = await worked(site, *replies, role="architect")
    assert error is None
    assert data["record"]["options"] == options
    assert "- zero: hides" in data["record"]["markdown"]


async def test_who_cannot_do_it_says_so(site: Worksite) -> None:
    _, error = await worked(site, call("finish", summary="no", failed=True), role="reviewer")
    assert isinstance(error, WorkFailed)
    assert error.message == "no"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"role": "reviewer", "apply_to": "worktree"}, "changes nothing"),
        ({"role": "reviewer", "agent": "recipe"}, "needs a model"),
        ({"role": "reviewr"}, "Did you mean 'reviewer'?"),
    ],
)
async def test_what_a_role_does_not_do_is_refused_before_the_plan_is_made(
    site: Worksite, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        spec_of(site.asked_of(site.script([done()]), **options), site.environ)
    assert words in caught.value.message
