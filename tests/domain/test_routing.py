"""The chain with four levels, the one with six, and when which of them counts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.codec import from_json, to_json
from patchyard.domain.environment import ExecutionEnvironment as Kind
from patchyard.domain.environment import Priority
from patchyard.domain.plan import PlanSpec
from patchyard.domain.routing import Chain, ExecutionEnvironmentResolver, Route, chain_of, route_of

KINDS = st.none() | st.sampled_from(Kind)
PRIORITIES = st.none() | st.sampled_from(Priority)
CHAINS = st.builds(
    Chain,
    tool=KINDS,
    plan=KINDS,
    plan_priority=PRIORITIES,
    project=KINDS,
    project_priority=PRIORITIES,
    resource=KINDS,
    discovered=st.none() | st.just(Kind.DEVCONTAINER),
    has_discovery=st.booleans(),
    default=st.sampled_from(Kind),
)
SPEC = PlanSpec(task="t", repository="/r")


def resolved(chain: Chain) -> Route:
    return ExecutionEnvironmentResolver().resolve(chain)


def short(chain: Chain) -> Chain:
    """The same without anything that asks for the longer chain."""
    return replace(chain, plan_priority=None, project_priority=None, has_discovery=False)


@given(CHAINS)
def test_a_tools_own_setting_beats_everything(chain: Chain) -> None:
    if chain.tool is not None:
        assert resolved(chain).level == "tool"


@given(CHAINS)
def test_what_was_chosen_is_what_that_level_says(chain: Chain) -> None:
    route = resolved(chain)
    said = {"devcontainer": chain.discovered}
    said |= {name: getattr(chain, name) for name in ("tool", "plan", "project", "resource")}
    assert route.kind == said.get(route.level, chain.default)
    assert (route.level == "default") <= (chain.tool is chain.plan is chain.project is None)


@given(CHAINS)
def test_with_no_priority_and_no_discovery_a_devcontainer_changes_nothing(chain: Chain) -> None:
    plain = short(chain)
    assert resolved(plain) == resolved(replace(plain, discovered=None))


@given(CHAINS, st.sampled_from(Priority))
def test_with_equal_priorities_and_no_devcontainer_both_chains_agree(
    chain: Chain, priority: Priority
) -> None:
    bare = replace(chain, discovered=None, resource=None)
    equal = replace(bare, plan_priority=priority, project_priority=priority)
    assert resolved(equal).kind == resolved(short(bare)).kind
    assert resolved(equal).level == resolved(short(bare)).level


@given(CHAINS)
def test_a_plan_that_overrides_gives_way_to_a_tool_alone(chain: Chain) -> None:
    chain = replace(chain, plan=Kind.PROCESS, plan_priority=Priority.OVERRIDE)
    assert resolved(chain).level == ("tool" if chain.tool else "plan")


@given(CHAINS)
def test_an_explicit_plan_beats_a_resources_value_in_both_chains(chain: Chain) -> None:
    chain = replace(chain, plan=chain.plan or Kind.PROCESS, resource=Kind.CONTAINER)
    assert resolved(chain).level != "resource"
    assert resolved(short(chain)).level != "resource"


CONTAINER, PROCESS, HOST = Kind.CONTAINER, Kind.PROCESS, Kind.HOST
SIX = Chain(plan=PROCESS, project=CONTAINER, discovered=Kind.DEVCONTAINER, has_discovery=True)


@pytest.mark.parametrize(
    ("chain", "level"),
    [
        (SIX, "devcontainer"),
        (replace(SIX, plan_priority=Priority.OVERRIDE), "plan"),
        (replace(SIX, plan_priority=Priority.FALLBACK), "devcontainer"),
        (replace(SIX, project_priority=Priority.OVERRIDE), "project"),
        (
            replace(SIX, project_priority=Priority.OVERRIDE, plan_priority=Priority.OVERRIDE),
            "plan",
        ),
        (replace(SIX, discovered=None), "plan"),
        (replace(SIX, discovered=None, plan=None), "project"),
        (replace(SIX, discovered=None, plan=None, resource=HOST), "resource"),
        (replace(SIX, discovered=None, plan=None, project=None), "default"),
    ],
)
def test_the_six_levels_come_in_their_order(chain: Chain, level: str) -> None:
    assert resolved(chain).level == level


def test_the_reason_says_that_something_overrides() -> None:
    chain = replace(SIX, project_priority=Priority.OVERRIDE)
    assert resolved(chain).reason == "the project's setting, which overrides"


def test_priorities_reach_a_plans_routes_and_survive_its_journal() -> None:
    spec = replace(
        SPEC,
        environment=PROCESS,
        environment_priority=Priority.FALLBACK,
        project_environment=HOST,
        project_priority=Priority.OVERRIDE,
        tool_environments={"grep_search": PROCESS},
    )
    read = from_json(PlanSpec, to_json(spec))
    assert chain_of(read) == chain_of(spec)
    assert route_of(read).kind == HOST
    assert route_of(read, "grep_search") == route_of(spec, "grep_search")
    assert route_of(read, "grep_search").level == "tool"
