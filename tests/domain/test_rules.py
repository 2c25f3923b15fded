"""Small pure rules: ids, routing, budgets, invariants, errors."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.budget import UNPRICED_TOKENS, PlanLimits, Spent, passed_limit, raised
from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.domain.environment import HERE, ExecutionEnvironment, parse_kind
from patchyard.domain.errors import ContainerUnavailableError, UnknownName, UsageError
from patchyard.domain.ids import is_prefix, is_ulid, ulid
from patchyard.domain.invariant import Invariant, Scope, reconcile
from patchyard.domain.proofread import touched_proof
from patchyard.domain.resource import site_named
from patchyard.domain.routing import Chain, ExecutionEnvironmentResolver
from patchyard.registry import ENVIRONMENTS

KINDS = [None, ExecutionEnvironment.HOST, ExecutionEnvironment.PROCESS]
NUMBERS = st.integers(0, 2**48 - 1)


@given(NUMBERS, NUMBERS, st.integers(0, 2**80 - 1), st.integers(0, 2**80 - 1))
def test_ulids_sort_by_time(first: int, second: int, a: int, b: int) -> None:
    one, two = ulid(first, a), ulid(second, b)
    assert is_ulid(one)
    if first != second:
        assert (one < two) == (first < second)
    else:
        assert (one < two) == (a < b)


@pytest.mark.parametrize(("text", "verdict"), [("01J", True), ("", False), ("!!", False)])
def test_a_prefix_is_told_from_other_text(text: str, verdict: object) -> None:
    assert is_prefix(text) is verdict


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("host", ExecutionEnvironment.HOST),
        ("LOCAL", ExecutionEnvironment.HOST),
        ("container", ExecutionEnvironment.CONTAINER),
        (" docker ", ExecutionEnvironment.CONTAINER),
        ("remote", ExecutionEnvironment.POD),
        ("process", ExecutionEnvironment.PROCESS),
        ("mock", ExecutionEnvironment.MOCK),
    ],
)
def test_source_words_name_kinds(word: str, kind: ExecutionEnvironment) -> None:
    assert parse_kind(word) is kind


def test_an_unknown_kind_lists_the_right_ones_and_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'container'") as caught:
        parse_kind("containr")
    assert "process" in caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("levels", list(itertools.product(KINDS, repeat=4)))
def test_the_first_level_that_is_set_wins(
    levels: tuple[ExecutionEnvironment | None, ...],
) -> None:
    tool, plan, project, resource = levels
    route = ExecutionEnvironmentResolver().resolve(
        Chain(tool=tool, plan=plan, project=project, resource=resource)
    )
    first = next((kind for kind in levels if kind is not None), ExecutionEnvironment.HOST)
    assert route.kind == first
    names = ["tool", "plan", "project", "resource"]
    set_levels = [name for name, kind in zip(names, levels, strict=True) if kind is not None]
    assert route.level == (set_levels[0] if set_levels else "default")


def test_an_explicit_host_on_the_plan_beats_the_project() -> None:
    resolver = ExecutionEnvironmentResolver()
    chain = Chain(plan=ExecutionEnvironment.HOST, project=ExecutionEnvironment.PROCESS)
    assert resolver.resolve(chain).kind == ExecutionEnvironment.HOST
    unset = Chain(project=ExecutionEnvironment.PROCESS)
    assert resolver.resolve(unset).kind == ExecutionEnvironment.PROCESS


def test_a_missing_container_says_how_to_link_one() -> None:
    with pytest.raises(ContainerUnavailableError) as unnamed:
        site_named("container", ())
    assert unnamed.value.exit_code == 4
    commands = (
        "`agents resource add container-instance NAME --image IMAGE`",
        "`agents resource add devcontainer-instance NAME --path .`",
        "`agents project create PROJECT`",
        "`agents project link-resource PROJECT NAME`",
    )
    assert all(command in unnamed.value.hint for command in commands)
    with pytest.raises(ContainerUnavailableError) as named:
        site_named("docker", (), project="shop")
    assert "`agents project link-resource shop NAME`" in named.value.hint
    assert "project create" not in named.value.hint


@pytest.mark.parametrize(
    ("spent", "name", "word"),
    [
        (Spent(), "", ""),
        (Spent(steps=200), "steps", "200 steps"),
        (Spent(usd=5.0), "usd", "5 USD"),
        (Spent(usd=9.0, is_priced=False), "", ""),
        (Spent(input_tokens=UNPRICED_TOKENS, is_priced=False), "tokens", "tokens"),
        (Spent(seconds=3600.0), "seconds", "3600 s"),
    ],
)
def test_the_first_limit_that_is_reached_is_named(spent: Spent, name: str, word: str) -> None:
    passed = passed_limit(PlanLimits(), spent)
    assert (passed.name if passed else "") == name
    assert word in (passed.told if passed else "")


def test_a_limit_of_tokens_counts_both_ways() -> None:
    limits = PlanLimits(tokens=10)
    assert passed_limit(limits, Spent(input_tokens=6, output_tokens=3)) is None
    assert passed_limit(limits, Spent(input_tokens=6, output_tokens=4)) is not None


@pytest.mark.parametrize(
    ("before", "asked", "after"), [(5.0, "+2", 7.0), (5.0, "2", 2.0), (None, "2", 2.0)]
)
def test_a_limit_is_set_anew_or_raised(before: float | None, asked: str, after: float) -> None:
    assert raised(before, asked, name="--budget-usd") == after


def test_what_is_not_set_cannot_be_raised() -> None:
    with pytest.raises(UsageError, match="none of the kind"):
        raised(None, "+2", name="--budget-usd")


@pytest.mark.parametrize("asked", ["much", "-1", "+", "nan", "inf", "+-9", "1e300"])
def test_what_is_no_limit_is_refused(asked: str) -> None:
    with pytest.raises(UsageError, match="--budget-usd"):
        raised(5.0, asked, name="--budget-usd")


def invariant(text: str, scope: Scope, **more: Any) -> Invariant:
    return Invariant(invariant_id=f"{scope}", text=text, scope=scope, **more)


def test_the_more_specific_invariant_wins_and_the_conflict_is_said() -> None:
    outcome = reconcile(
        [
            invariant("API  unchanged", Scope.PLAN, check="b"),
            invariant("api unchanged", Scope.GLOBAL, check="a"),
        ]
    )
    assert [item.check for item in outcome.effective] == ["b"]
    assert "the check of plan is used, not that of global" in outcome.conflicts[0]


def test_a_non_overridable_global_invariant_stays() -> None:
    outcome = reconcile(
        [
            invariant("no new deps", Scope.GLOBAL, check="a", non_overridable=True),
            invariant("no new deps", Scope.PROJECT, check="b"),
        ]
    )
    assert [item.check for item in outcome.effective] == ["a"]


def test_invariants_that_say_other_things_stand_side_by_side() -> None:
    outcome = reconcile([invariant("a", Scope.GLOBAL), invariant("b", Scope.ACTION)])
    assert len(outcome.effective) == 2
    assert outcome.conflicts == ()


def test_changed_tests_and_tool_settings_are_named() -> None:
    def change(path: str, old: str | None = None) -> Change:
        return Change(path=path, status=ChangeStatus.MODIFIED, old_path=old)

    changes = [
        change("src/a.py"),
        change("pkg/tests/test_a.py"),
        change("pyproject.toml"),
        change("src/b.py", "conftest.py"),
    ]
    assert touched_proof(changes) == ("conftest.py", "pkg/tests/test_a.py", "pyproject.toml")


@pytest.mark.parametrize(
    "path",
    ["packages/web/package.json", "services/a/pyproject.toml", "web/jest.config.js", "a/Makefile",
     "core/test/a.c", "web/src/a.test.mjs", "vite.config.ts", "features/a.feature", "Tests/a.c",
     "features/steps/a.py", "a/testcalc.py", "web/a.js.snap", "src/a-test.js", "a/poetry.lock",
     ".pnp.cjs", ".yarn/releases/yarn-4.1.0.cjs", "Package.swift", "build.zig", "project.clj",
     "project/Build.scala", "xtask/src/main.rs", "magefiles/a.go", "dodo.py", "gulpfile.js",
     "config/test.exs", "Shop.Tests/Price.cs", "ShopTests/Price.swift", "src/calc/test.rs"],
)  # fmt: skip
def test_settings_of_a_part_of_the_repository_are_named_too(path: str) -> None:
    assert touched_proof([Change(path=path, status=ChangeStatus.MODIFIED)]) == (path,)


@pytest.mark.parametrize(
    "path",
    ["src/package.json.py", "latest/a.py", "Makefile/a.py", "spec.py", "src/features/a/b.js",
     "testkit/core/a.py", "requirements/a.md"],
)  # fmt: skip
def test_what_is_like_a_test_or_a_setting_in_name_alone_is_not(path: str) -> None:
    assert touched_proof([Change(path=path, status=ChangeStatus.MODIFIED)]) == ()


def test_the_environments_that_are_offered_are_those_with_an_adapter() -> None:
    assert set(HERE) == set(ENVIRONMENTS)
