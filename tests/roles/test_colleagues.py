"""Roles one after the other: tests are taken over, a review sends the work back, all is counted."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite, call, done
from patchyard.assembly import open_equipment
from patchyard.domain.colleagues import ColleagueAsked, ColleagueHeard
from patchyard.domain.errors import LimitReached, PatchyardError, ProofFailed, UsageError
from patchyard.domain.events import Event, LimitsChanged, PlanCreated, TurnTaken
from patchyard.domain.plan import PlanSpec, State
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.replaying import replay
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, spec_of

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

CALC = "def mean(values):\n    return sum(values) / len(values)\n"
ZERO = CALC.replace(":\n", ":\n    if not values:\n        return 0\n", 1)
RIGHT = ZERO.replace("return 0\n", "return 0.0\n")
CHECK = "python3 -m unittest -q"
OLD = (
    "import unittest\nfrom calc import mean\n\n\nclass Mean(unittest.TestCase):\n"
    "    def test_mean(self):\n        self.assertEqual(mean([1, 3]), 2)\n"
)
NEW = OLD.replace("mean([1, 3]), 2", "mean([]), 0").replace("class Mean", "class None_")
WRITES_TEST = call("write_file", path="test_none.py", content=NEW)
FOUND = {"path": "calc.py", "line": 3, "severity": "error", "message": "return 0.0", "rule": "r"}
REJECTS = call("finish", summary="no", verdict="request_changes", findings=[FOUND])
APPROVES = call("finish", summary="yes", verdict="approve")


def paths(data: Mapping[str, Any]) -> list[str]:
    return sorted(each["path"] for each in data["changeset"]["files"])


class Team:
    """A repository, and a script for each role."""

    def __init__(self, folder: Path, **scripts: Sequence[Mapping[str, Any]]) -> None:
        self.site = Worksite.make(folder, {"calc.py": CALC, "test_calc.py": OLD})
        chains = {}
        for role, replies in scripts.items():
            path = folder / f"{role}.json"
            path.write_text(json.dumps({"note": "written by hand", "execute": list(replies)}))
            chains[role] = {"provider": "scripted", "default_model": str(path)}
        config = folder / "config" / "patchyard"
        config.mkdir(parents=True)
        (config / "models.yaml").write_text(json.dumps({"roles": chains}))
        (config / "config.yaml").write_text(json.dumps({"roles": list(scripts)}))
        self.environ = {**self.site.environ, "XDG_CONFIG_HOME": str(folder / "config")}

    def own_role(self, name: str, policy: str) -> None:
        """Write a role of the user's own."""
        roles = Path(self.environ["XDG_CONFIG_HOME"]) / "patchyard" / "roles"
        roles.mkdir(exist_ok=True)
        (roles / f"{name}.yaml").write_text(policy)
        (roles / f"{name}.md").write_text("Be brief.\n")

    def spec(self, **options: Any) -> PlanSpec:
        """Return what the team is asked for."""
        repository = str(self.site.repository)
        asked = Asked(task="Let mean([]) be 0", kind="process", repository=repository)
        asked = Asked(**{**vars(asked), "validate": (CHECK,), **options})
        return spec_of(asked, self.environ)

    async def run(
        self, plan_id: str = "", **options: Any
    ) -> tuple[Mapping[str, Any], list[Any], PatchyardError | None]:
        """Run or carry on; see `Worksite.carried`."""
        return await self.site.carried(self.environ, plan_id or self.spec(**options))

    async def raise_steps(self, plan_id: str, steps: int) -> None:
        """Set a plan's limit of steps anew."""
        async with (
            open_equipment(self.environ) as equipment,
            PlanLifecycleService(equipment).owned(plan_id) as ledger,
        ):
            await ledger.record(LimitsChanged(limits=replace(ledger.state.limits, steps=steps)))


async def test_each_looks_at_what_the_one_before_left(tmp_path: Path) -> None:
    developer = (
        call("write_file", path="calc.py", content=ZERO),
        done("returns 0"),
        call("write_file", path="calc.py", content=RIGHT),
        done("returns 0.0"),
    )
    team = Team(
        tmp_path,
        developer=developer,
        tester=(WRITES_TEST, done("added")),
        reviewer=(REJECTS,),
    )
    data, events, error = await team.run(rounds=1)
    assert isinstance(error, ProofFailed)  # the script of the reviewer always rejects
    assert "the reviewer still asks for changes: calc.py:3 error: return 0.0" in error.message
    assert data["state"] == State.CONSTRAINED
    heard = [event for event in events if isinstance(event, ColleagueHeard)]
    assert [(each.role, each.verdict, each.added) for each in heard] == [
        ("tester", "", ("test_none.py",)),
        ("reviewer", "request_changes", ()),
        ("reviewer", "request_changes", ()),
    ]
    own = sum(each.input_tokens + each.output_tokens for each in heard)
    assert data["cost"]["tokens"] > own > 0
    (tmp_path / "reviewer.json").write_text(json.dumps({"execute": [APPROVES]}))
    data, events, error = await team.run(data["plan_id"])
    assert error is None
    assert sorted(each["path"] for each in data["changeset"]["files"]) == [
        "calc.py",
        "test_none.py",
    ]
    assert data["colleagues"][-1]["verdict"] == "approve"
    asked = [event.colleague_id for event in events if isinstance(event, ColleagueAsked)]
    assert len(asked) == len(set(asked)) == 4


class Struck(BaseException):
    """What a kill looks like from inside: nothing after it runs."""


@pytest.mark.parametrize("when", ["asking", "asked", "made", "written", "heard"])
async def test_killed_in_between_nobody_is_asked_or_heard_twice(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    developer = (call("write_file", path="calc.py", content=ZERO), done("returns 0"))
    team = Team(tmp_path, developer=developer, tester=(WRITES_TEST, done()), reviewer=(APPROVES,))
    real = Ledger.record
    kinds = {"asked": (ColleagueAsked,), "heard": (ColleagueHeard,)}.get(when, ())

    async def record(ledger: Ledger, *events: Event) -> None:
        first = events[0]
        before = {"asking": ColleagueAsked, "written": ColleagueHeard}.get(when)
        if before is not None and isinstance(first, before):
            raise Struck
        await real(ledger, *events)
        is_made = isinstance(first, PlanCreated) and first.spec.lineage is not None
        if isinstance(first, kinds) or (when == "made" and is_made):
            raise Struck

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "record", record)
        with pytest.raises(Struck):
            await team.run()
    async with open_equipment(team.environ) as equipment:
        rows = await equipment.store.summaries.summaries()
        (plan_id,) = [stream for stream, row in rows if not row.get("kinship")]
    data, events, error = await team.run(plan_id)
    assert error is None
    assert paths(data) == ["calc.py", "test_none.py"]
    heard = [event.role for event in events if isinstance(event, ColleagueHeard)]
    asked = [event.role for event in events if isinstance(event, ColleagueAsked)]
    assert heard == asked == ["tester", "reviewer"]
    async with open_equipment(team.environ) as equipment:
        rows = await equipment.store.summaries.summaries()
    assert [row["phase"] for _, row in rows if row.get("kinship")] == ["execute", "execute"]


async def test_a_tester_who_finds_the_work_wrong_sends_it_back(tmp_path: Path) -> None:
    developer = (
        call("write_file", path="calc.py", content=CALC + "# nothing\n"),
        done("did nothing"),
        call("write_file", path="calc.py", content=ZERO),
        done("returns 0"),
    )
    team = Team(tmp_path, developer=developer, tester=(call("finish", summary="no", failed=True),))
    data, events, error = await team.run(rounds=1)
    assert isinstance(error, ProofFailed)
    assert error.message == "the tester cannot test the work: no"
    notes = [event.note for event in events if isinstance(event, TurnTaken) and event.note]
    assert notes[0].startswith("The tester cannot test your work: no")
    (tmp_path / "tester.json").write_text(json.dumps({"execute": [WRITES_TEST, done()]}))
    data, _, error = await team.run(data["plan_id"])
    assert error is None
    assert paths(data) == ["calc.py", "test_none.py"]


async def test_a_team_is_replayed_without_anybody(tmp_path: Path) -> None:
    developer = (call("write_file", path="calc.py", content=ZERO), done("returns 0"))
    team = Team(tmp_path, developer=developer, tester=(WRITES_TEST, done()), reviewer=(APPROVES,))
    data, _, error = await team.run()
    assert error is None
    async with open_equipment(team.environ) as equipment:
        outcome = await replay(equipment, Workflow(equipment), data["plan_id"])
    await team.site.clear()
    assert (outcome.paths, outcome.tree) == ((), outcome.wanted)


async def test_a_colleague_that_reached_the_limit_goes_on_when_it_is_raised(tmp_path: Path) -> None:
    developer = (call("write_file", path="calc.py", content=ZERO), done("returns 0"))
    looks = call("read_file", path="calc.py")
    team = Team(tmp_path, developer=developer, reviewer=(looks, looks, looks, APPROVES))
    data, _, error = await team.run(steps=6)
    assert isinstance(error, LimitReached)
    assert (data["cost"]["steps"], data["colleagues"]) == (6, [])  # counted, and not heard yet
    await team.raise_steps(data["plan_id"], 50)
    data, _, error = await team.run(data["plan_id"])
    assert error is None
    assert data["colleagues"][-1]["verdict"] == "approve"
    assert data["cost"]["steps"] == 8


async def test_a_role_bounds_its_part_until_somebody_sets_a_limit_anew(tmp_path: Path) -> None:
    developer = (call("write_file", path="calc.py", content=ZERO), done("returns 0"))
    looks = call("read_file", path="calc.py")
    team = Team(tmp_path, developer=developer, reviewer=(looks, looks, looks, APPROVES))
    team.own_role("reviewer", "output: findings\nlimits: {max_steps: 2}\n")
    data, _, error = await team.run(steps=50)
    assert isinstance(error, LimitReached)
    assert error.message == "the limit of 2 steps is reached"
    assert data["cost"]["steps"] == 5  # three of them the developer's
    await team.raise_steps(data["plan_id"], 60)
    data, _, error = await team.run(data["plan_id"])
    assert error is None
    assert data["colleagues"][-1]["verdict"] == "approve"


async def test_what_the_strategy_says_of_the_task_lifts_no_bound_of_a_role(tmp_path: Path) -> None:
    developer = (call("write_file", path="calc.py", content=ZERO), done("returns 0"))
    looks = call("read_file", path="calc.py")
    team = Team(tmp_path, developer=developer, reviewer=(looks, looks, looks, APPROVES))
    script = tmp_path / "developer.json"
    large = call("finish", summary="let it be 0", complexity="high")
    script.write_text(json.dumps({**json.loads(script.read_text()), "strategize": [large]}))
    team.own_role("reviewer", "output: findings\nlimits: {max_steps: 2}\n")
    data, _, error = await team.run()
    assert data["cost"]["limits"]["steps"] == 400
    assert isinstance(error, LimitReached)
    assert error.message == "the limit of 2 steps is reached"


async def test_the_gates_of_a_role_prove_its_part_too(tmp_path: Path) -> None:
    developer = (call("write_file", path="calc.py", content=ZERO), done("returns 0"))
    team = Team(tmp_path, developer=developer, tester=(WRITES_TEST, done("added")))
    told = '{command: "grep -l None_ *.py; echo told >&2; test ! -e test_none.py"}'
    team.own_role("tester", f"output: tests\nlimits: {{rounds: 0}}\ngates: {{house: {told}}}\n")
    data, _, error = await team.run()
    assert isinstance(error, ProofFailed)
    assert "house" in error.message
    async with open_equipment(team.environ) as equipment:
        own = await team.site.ledger(equipment, data["plan_id"])
        assert own.state.known.gates == ()


async def test_a_typed_role_works_alone(tmp_path: Path) -> None:
    developer = (call("write_file", path="calc.py", content=ZERO), done("returns 0"))
    team = Team(tmp_path, developer=developer, reviewer=(APPROVES,))
    data, _, error = await team.run(role="developer")
    assert (error, data["colleagues"]) == (None, [])


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        (["developer", "developer"], "roles[1]: developer stands twice"),
        (["developer", "architect"], "architect gives record and cannot look at"),
        (["reviewer", "tester"], "reviewer gives findings, so that others have nothing"),
        (["developer", "reviewr"], "config.yaml:1:25: roles[1]: unknown role 'reviewr'"),
    ],
)
def test_a_team_that_cannot_work_is_refused(roles: list[str], words: str, tmp_path: Path) -> None:
    team = Team(tmp_path, developer=(done(),))
    (tmp_path / "config" / "patchyard" / "config.yaml").write_text(json.dumps({"roles": roles}))
    with pytest.raises(UsageError) as caught:
        spec_of(Asked(task="t", repository=str(team.site.repository)), team.environ)
    assert words in caught.value.message
