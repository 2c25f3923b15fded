"""What a model's strategy says of its task, in any language, and what follows (C16, C18)."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import ADD, Worksite, call, done
from patchyard.cli.progress import SpokenLines
from patchyard.cli.screen import plan_screen
from patchyard.domain.analysis import KINDS, SIZES, Complexity, TaskKind
from patchyard.domain.assessing import Assessment, TaskAssessed, limits_for, read_assessment
from patchyard.domain.budget import PlanLimits, Spent
from patchyard.domain.events import LimitsChanged, TurnTaken
from patchyard.domain.limit_settings import LimitSettings
from patchyard.domain.plan import Phase
from patchyard.domain.task_words import analysed
from patchyard.engine.forking import fork
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.limiting import set_limits
from patchyard.engine.report import plan_data
from patchyard.engine.reverting import revert
from patchyard.intake import Asked, spec_of

pytestmark = pytest.mark.anyio

ORDINARY: Mapping[str, tuple[str, str]] = {
    "Pages of the catalogue come out in a random order since Monday": ("bugfix", "low"),
    "Customers want to pay by invoice": ("feature", "high"),
    "The login page takes ten seconds": ("bugfix", "medium"),
    "Let people sign in with their Google account": ("feature", "medium"),
    "Show prices with VAT for customers in the EU": ("feature", "low"),
    "Warte nicht länger als fünf Sekunden auf den Server": ("feature", "low"),
    "Die Rechnung rundet Cents falsch": ("bugfix", "low"),
    "Теряется последняя страница списка": ("bugfix", "low"),
    "最後のページが表示されません": ("bugfix", "low"),
    "为订单接口编写单元测试": ("tests", "medium"),
    "Renomme la classe Stock en Entrepôt": ("refactor", "low"),
    "Explica en el manual cómo se instala": ("documentation", "low"),
    "هل يمكن استخدام قاعدة بيانات أخرى؟": ("question", "low"),
    "Passe auf Python 3.13 an und wirf die alten Pakete hinaus": ("maintenance", "medium"),
}
"""Tasks as people write them: no word of them is in the rules, or most are in another language."""


def strategy(**said: Any) -> dict[str, Any]:
    """Return a scripted strategy that says more than a summary."""
    return call("finish", summary="mend it", **said)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    made = Worksite.make(tmp_path, {"stock.py": "x = 1\n"})
    yield made
    await made.clear()


def asked(site: Worksite, *strategies: Mapping[str, Any], **options: Any) -> Asked:
    """One new file after these strategies, and neither setup nor proof."""
    return site.asked(ADD, strategize=strategies, setup=("",), validate=("",), **options)


async def data_of(site: Worksite, wanted: Asked) -> dict[str, Any]:
    """Return what a run of it gives."""
    data, _, error = await site.carried(site.environ, spec_of(wanted, site.environ))
    assert error is None
    return dict(data)


@pytest.mark.parametrize("task", ORDINARY)
def test_the_rules_for_words_say_that_they_do_not_know(task: str) -> None:
    found = analysed(task)
    assert found.because == ()
    assert (found.kind, found.complexity) == (TaskKind.UNKNOWN, Complexity.UNKNOWN)


@pytest.mark.service("bubblewrap")
async def test_the_strategy_says_of_ordinary_tasks_in_any_language_what_they_are(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        for task, (kind, complexity) in ORDINARY.items():
            wanted = replace(asked(site, strategy(kind=kind, complexity=complexity)), task=task)
            plan_id = await site.made(workflow, wanted)
            await workflow.strategize(plan_id)
            data = await plan_data(await site.ledger(equipment, plan_id))
            assert data["assessment"]["kind"] == kind
            assert data["assessment"]["complexity"] == complexity
            assert data["assessment"]["kind_by"] == "strategy"
            assert data["analysis"]["kind"] == "unknown"
            assert f"{kind}, by its strategy; 1 file" in plan_screen(data)


@pytest.mark.service("bubblewrap")
async def test_without_a_word_of_the_strategy_the_kind_is_unknown_and_no_limit_moves(
    site: Worksite,
) -> None:
    data = await data_of(site, asked(site, done("mend it")))
    assert data["assessment"] == {
        "kind": "unknown",
        "kind_by": None,
        "complexity": "unknown",
        "complexity_by": None,
        "proposed_role": None,
        "limits": None,
    }
    assert "of unknown kind; 1 file" in plan_screen(data)
    assert data["cost"]["limits"]["steps"] == 200


@pytest.mark.service("bubblewrap")
async def test_where_the_strategy_is_silent_words_say_it(site: Worksite) -> None:
    wanted = replace(asked(site, strategy(complexity="high")), task="Fix the crash")
    data = await data_of(site, wanted)
    found = data["assessment"]
    assert (found["kind"], found["kind_by"]) == ("bugfix", "words")
    assert (found["complexity"], found["complexity_by"]) == ("high", "strategy")
    assert "bugfix, by its words; large, by its strategy; 1 file" in plan_screen(data)


@pytest.mark.service("bubblewrap")
async def test_a_recipe_shows_neither(site: Worksite) -> None:
    spec = spec_of(asked(site, strategy(kind="bugfix")), site.environ)
    steps = ({"run": "echo x >x.txt"},)
    recipe = replace(spec, agent="recipe", steps=steps)
    data, events, error = await site.carried(site.environ, recipe)
    assert error is None
    assert (data["analysis"], data["assessment"]) == (None, None)
    assert not any(isinstance(event, TaskAssessed) for event in events)
    assert "by its" not in plan_screen(data)
    assert "no word of it" not in plan_screen(data)


@pytest.mark.service("bubblewrap")
async def test_a_word_that_is_none_is_sent_back_and_the_plan_goes_on(site: Worksite) -> None:
    strategies = (
        strategy(kind="miracle", complexity="low"),
        strategy(kind="Bug-Fix", complexity=" HIGH "),
    )
    data, events, error = await site.carried(
        site.environ, spec_of(asked(site, *strategies), site.environ)
    )
    assert error is None
    assert (data["assessment"]["kind"], data["assessment"]["complexity"]) == ("bugfix", "high")
    taken = [event for event in events if isinstance(event, TurnTaken)]
    assert len(taken) == 4  # two to plan, two to work


@pytest.mark.service("bubblewrap")
async def test_a_model_that_insists_on_such_a_word_says_nothing_and_is_not_failed(
    site: Worksite,
) -> None:
    data = await data_of(site, asked(site, *[strategy(kind=7, complexity="vast")] * 3))
    assert data["assessment"]["kind_by"] is None
    assert data["strategy"]["summary"] == "mend it"


@pytest.mark.parametrize(
    ("kind", "complexity", "problem"),
    [
        ("miracle", None, "`kind` is 'miracle', and must be one of: bugfix, feature, "),
        (None, "huge", "`complexity` is 'huge', and must be one of: low, medium, high"),
        (["bugfix"], None, "`kind` is \"['bugfix']\", and must be one of: "),
        ("unknown", None, "`kind` is 'unknown', and must be one of: "),
    ],
)
def test_a_refused_word_is_told_with_those_that_there_are(
    kind: Any, complexity: Any, problem: str
) -> None:
    read, said = read_assessment(kind, complexity)
    assert read == Assessment()
    assert problem in said


def test_each_word_is_read_as_it_is_shown() -> None:
    for kind in KINDS:
        for size in SIZES:
            read, problem = read_assessment(str(kind), str(size).upper())
            assert (read, problem) == (Assessment(kind=kind, complexity=size), "")
    assert read_assessment("", None) == (Assessment(), "")


LIMITS = {
    "low": {"usd": 2.5, "steps": 101, "seconds": 3600.0},
    "medium": {"usd": 5.0, "steps": 200, "seconds": 3600.0},
    "high": {"usd": 5.0, "steps": 400, "seconds": 7200.0},
}


@pytest.mark.service("bubblewrap")
@pytest.mark.parametrize("complexity", LIMITS)
async def test_limits_that_nobody_set_follow_the_complexity_and_money_is_never_raised(
    site: Worksite, complexity: str
) -> None:
    data = await data_of(site, asked(site, strategy(complexity=complexity)))
    limits = data["cost"]["limits"]
    assert {name: limits[name] for name in LIMITS[complexity]} == LIMITS[complexity]


@pytest.mark.service("bubblewrap")
@pytest.mark.parametrize("complexity", ["low", "high"])
async def test_a_limit_that_somebody_set_stays_at_both_ends(
    site: Worksite, complexity: str
) -> None:
    wanted = asked(site, strategy(complexity=complexity), usd=5.0, steps=200, seconds=60.0)
    data = await data_of(site, wanted)
    limits = data["cost"]["limits"]
    assert (limits["usd"], limits["steps"], limits["seconds"]) == (5.0, 200, 60.0)
    assert data["assessment"]["limits"] is None


@pytest.mark.service("bubblewrap")
async def test_a_limit_of_a_repositorys_file_is_not_raised(site: Worksite) -> None:
    (site.repository / ".patchyard").mkdir()
    (site.repository / ".patchyard" / "config.yaml").write_text("limits: {max_steps: 150}\n")
    data = await data_of(site, asked(site, strategy(complexity="high")))
    assert data["cost"]["limits"]["steps"] == 150
    assert data["cost"]["limits"]["seconds"] == 7200.0


def test_a_roles_most_is_no_more_than_that() -> None:
    most = LimitSettings(max_steps=300)
    found = limits_for(
        Complexity.HIGH,
        PlanLimits(),
        adjustable=("usd", "steps"),
        spent=Spent(),
        most=most,
    )
    assert (found.steps, found.usd, found.seconds) == (300, 5.0, 3600.0)


def test_what_planning_used_is_not_taken_from_a_small_task() -> None:
    spent = Spent(usd=1.25, steps=80)
    found = limits_for(
        Complexity.LOW,
        PlanLimits(),
        adjustable=("usd", "steps"),
        spent=spent,
        most=LimitSettings(),
    )
    assert (found.steps, found.usd) == (180, 3.75)


@pytest.mark.service("bubblewrap")
async def test_a_limit_set_between_both_phases_is_kept_by_forks_and_by_a_second_strategy(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        wanted = asked(site, strategy(complexity="high"))
        plan_id = await site.made(workflow, wanted)
        await workflow.strategize(plan_id)
        await set_limits(equipment, plan_id, lambda limits: replace(limits, steps=40))
        child = await fork(equipment, plan_id, at="0")
        for each in (plan_id, child):
            ledger = await site.ledger(equipment, each)
            assert (ledger.state.limits.steps, ledger.state.limits.seconds) == (40, 7200.0)
            assert ledger.state.task_kind is None
        async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
            await revert(equipment, ledger, to=Phase.STRATEGIZE, by="a test")
        assert (await site.ledger(equipment, plan_id)).state.assessed is None
        await workflow.strategize(plan_id)
        events = await (await site.ledger(equipment, plan_id)).events()
        assert sum(isinstance(event, LimitsChanged) for *_, event in events) == 1
        assert (await site.ledger(equipment, plan_id)).state.limits.steps == 40


@pytest.mark.service("bubblewrap")
@pytest.mark.parametrize(
    ("said", "given", "proposed"),
    [
        ("tests", None, "tester"),
        ("review", None, "reviewer"),
        ("design", None, "architect"),
        ("bugfix", None, None),
        ("tests", "developer", None),
    ],
)
async def test_a_role_is_proposed_where_none_was_given(
    site: Worksite, said: str, given: str | None, proposed: str | None
) -> None:
    data = await data_of(site, asked(site, strategy(kind=said), role=given))
    assert data["assessment"]["proposed_role"] == proposed
    assert (f"{proposed} is for such tasks" in plan_screen(data)) == (proposed is not None)


@pytest.mark.service("bubblewrap")
async def test_people_hear_of_it_while_it_happens_and_explain_says_why(
    site: Worksite, capsys: pytest.CaptureFixture[str]
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, asked(site, strategy(kind="tests", complexity="low")))
        await workflow.strategize(plan_id)
        decisions = (await site.ledger(equipment, plan_id)).state.decisions
    assert decisions[-1].choice == "tests, low"
    assert decisions[-1].alternatives == ("unknown, unknown: by the words of the task",)
    assert "the role tester is for such tasks" in decisions[-1].rationale
    spoken = SpokenLines()
    for event in site.heard:
        spoken(event)
    spoken.flush()
    line = "task: tests, small; unset limits: 2.5 USD, 101 steps, 1h; the role tester"
    assert line in capsys.readouterr().err
