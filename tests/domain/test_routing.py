"""The chain with four levels, the one with six, and when which of them counts."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.codec import from_json, to_json
from patchyard.domain.environment import STRENGTH, Priority, Site
from patchyard.domain.environment import ExecutionEnvironment as Kind
from patchyard.domain.errors import ContainerUnavailableError, UnknownName, UsageError
from patchyard.domain.plan import PlanSpec
from patchyard.domain.preference import Preference, ToolPreference
from patchyard.domain.resource import Resource
from patchyard.domain.routing import (
    NO_PREFERENCE,
    Chain,
    ExecutionEnvironmentResolver,
    Route,
    chain_of,
    route_of,
    sites_of,
)
from patchyard.domain.tooling import COMMAND, OF_JOBS

LINKED = (
    Resource(name="box", type="container-instance"),
    Resource(name="far", type="ssh-host"),
    Resource(name="guest", type="vm-image"),
    Resource(name="cluster", type="kubernetes"),
)
FOUND = Resource(name="found", type="devcontainer-instance", parent="shop")
SITES = {str(site): site for each in LINKED if (site := each.site)}
"""What each name means where each kind that needs a resource has one."""
SITES |= {str(site.kind): site for site in SITES.values()}
SITES |= {str(kind): Site(kind) for kind in (Kind.HOST, Kind.PROCESS, Kind.MOCK)}
PLACES = st.none() | st.sampled_from(sorted(SITES))
PREFERENCES = st.just(NO_PREFERENCE) | st.builds(
    ToolPreference,
    mode=st.sampled_from([Preference.REQUIRED, Preference.PREFERRED]),
)
SPECIFIC = st.builds(
    ToolPreference,
    mode=st.just(Preference.SPECIFIC),
    target_resource=st.sampled_from([each.name for each in LINKED]),
)
PRIORITIES = st.none() | st.sampled_from(Priority)
CHAINS = st.builds(
    Chain,
    tool=PLACES,
    plan=PLACES,
    plan_priority=PRIORITIES,
    project=PLACES,
    project_priority=PRIORITIES,
    resource=PLACES,
    discovered=st.none() | st.just(FOUND),
    has_discovery=st.booleans(),
    default=st.sampled_from(sorted(SITES)),
    linked=st.just(LINKED),
)
SPEC = PlanSpec(task="t", repository="/r")
CONTAINER, PROCESS, HOST = map(str, (Kind.CONTAINER, Kind.PROCESS, Kind.HOST))


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
    if route.level == "devcontainer":
        assert route.site == FOUND.site
        return
    said = {name: getattr(chain, name) for name in ("tool", "plan", "project", "resource")}
    assert route.site == SITES[said.get(route.level) or chain.default]
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
    chain = replace(chain, plan=PROCESS, plan_priority=Priority.OVERRIDE)
    assert resolved(chain).level == ("tool" if chain.tool else "plan")


@given(CHAINS)
def test_an_explicit_plan_beats_a_resources_value_in_both_chains(chain: Chain) -> None:
    chain = replace(chain, plan=chain.plan or PROCESS, resource=CONTAINER)
    assert resolved(chain).level != "resource"
    assert resolved(short(chain)).level != "resource"


SIX = Chain(plan=PROCESS, project=CONTAINER, discovered=FOUND, has_discovery=True, linked=LINKED)


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
    assert route_of(read).kind == Kind.HOST
    assert route_of(read, "grep_search") == route_of(spec, "grep_search")
    assert route_of(read, "grep_search").level == "tool"


def with_preference(mode: Preference, **changes: Any) -> Chain:
    return Chain(preference=ToolPreference(mode=mode), linked=LINKED, **changes)


@given(CHAINS, SPECIFIC)
def test_the_resource_that_a_tool_names_is_the_one_it_gets(
    chain: Chain, specific: ToolPreference
) -> None:
    """#2134, #3826, #7931: the name was dropped and any container taken."""
    route = resolved(replace(chain, tool=None, preference=specific))
    assert (route.resource, route.level) == (specific.target_resource, "tool")


def test_of_two_containers_the_one_that_a_tool_names_is_taken() -> None:
    linked = (*LINKED, Resource(name="other", type="container-instance"))
    specific = ToolPreference(mode=Preference.SPECIFIC, target_resource="other")
    assert resolved(Chain(preference=specific, linked=linked)).site == Site(Kind.CONTAINER, "other")
    with pytest.raises(UnknownName, match="'gone'"):
        resolved(Chain(preference=replace(specific, target_resource="gone"), linked=linked))


@given(CHAINS)
def test_what_requires_a_container_gets_one_whatever_the_chain_says(chain: Chain) -> None:
    asked = replace(chain, tool=None, preference=ToolPreference(mode=Preference.REQUIRED))
    assert resolved(asked).site == SITES[CONTAINER]
    with pytest.raises(ContainerUnavailableError):
        resolved(replace(asked, linked=()))


def test_what_requires_a_container_and_names_less_is_refused() -> None:
    assert resolved(with_preference(Preference.REQUIRED, tool="guest")).kind == Kind.VM
    with pytest.raises(UsageError, match="requires a container, and its environment is process"):
        resolved(with_preference(Preference.REQUIRED, tool=PROCESS))


@pytest.mark.parametrize("carries", [None, Kind.PROCESS, Kind.CONTAINER])
def test_a_host_is_as_strong_as_what_it_carries(carries: Kind | None) -> None:
    far = Resource(name="far", type="ssh-host", carries=carries)
    required = Chain(preference=ToolPreference(mode=Preference.REQUIRED), tool="far", linked=(far,))
    if carries == Kind.CONTAINER:
        assert resolved(required).site == Site(Kind.SSH, "far")
    else:
        with pytest.raises(UsageError, match="requires a container"):
            resolved(required)
    preferred = replace(required, preference=ToolPreference(mode=Preference.PREFERRED), plan="far")
    fallen = resolved(replace(preferred, tool=None))
    assert fallen.site == (Site(Kind.SSH, "far") if carries else Site(Kind.PROCESS))
    spec = replace(SPEC, resources=(far,))
    assert spec.walls_at(Site(Kind.SSH, "far")) == (carries or Kind.SSH)
    assert from_json(PlanSpec, to_json(spec)).resource("far") == far
    assert spec.walls_at(Site(Kind.PROCESS)) == Kind.PROCESS


@given(CHAINS, PREFERENCES)
def test_a_preferred_place_that_fell_is_never_replaced_by_less_than_process(
    chain: Chain, preference: ToolPreference
) -> None:
    preferred = replace(chain, tool=None, preference=replace(preference, mode=Preference.PREFERRED))
    first = resolved(preferred)
    assert (first.site, first.is_preferred) == (SITES[CONTAINER], True)
    fallen = resolved(replace(preferred, fallen={"box": "no engine"}))
    general = resolved(replace(preferred, preference=NO_PREFERENCE))
    assert STRENGTH[fallen.kind] >= STRENGTH[Kind.PROCESS]
    assert fallen.level == general.level
    assert fallen.site in {general.site, Site(Kind.PROCESS)}
    assert "no engine" in fallen.reason


def test_a_preference_without_any_container_says_why_it_is_not_met() -> None:
    route = resolved(replace(with_preference(Preference.PREFERRED), linked=()))
    assert (route.site, route.is_preferred) == (Site(Kind.PROCESS), False)
    assert "no container resource is linked" in route.reason


@pytest.mark.parametrize("tool", sorted(OF_JOBS))
def test_what_is_about_jobs_goes_where_commands_go(tool: str) -> None:
    spec = PlanSpec(
        task="t",
        repository="/r",
        environment=PROCESS,
        tool_environments={COMMAND: Kind.HOST, tool: Kind.PROCESS},
    )
    assert route_of(spec, tool).site == Site(Kind.HOST)
    assert route_of(replace(spec, tool_environments={}), tool).site == Site(Kind.PROCESS)


def test_every_place_that_a_plan_can_reach_is_known_before_it_runs() -> None:
    spec = replace(
        SPEC,
        environment=PROCESS,
        tool_environments={"grep_search": HOST},
        tool_preferences={
            "execute_command": ToolPreference(mode=Preference.PREFERRED),
            "read_file": ToolPreference(mode=Preference.SPECIFIC, target_resource="far"),
        },
        resources=LINKED,
    )
    assert set(sites_of(spec)) == {
        Site(Kind.PROCESS), Site(Kind.HOST), Site(Kind.CONTAINER, "box"), Site(Kind.SSH, "far"),
    }  # fmt: skip
    read = from_json(PlanSpec, to_json(spec))
    assert sites_of(read) == sites_of(spec)
    with pytest.raises(UnknownName, match="'far'"):
        sites_of(replace(spec, resources=LINKED[:1]))


def test_a_priority_alone_brings_in_what_was_discovered() -> None:
    spec = PlanSpec(task="t", repository="/r", environment=PROCESS, discovered=FOUND)
    assert route_of(spec).level == "plan"
    levels = {
        priority: route_of(replace(spec, environment_priority=priority)).level
        for priority in Priority
    }
    assert levels == {Priority.FALLBACK: "devcontainer", Priority.OVERRIDE: "plan"}
