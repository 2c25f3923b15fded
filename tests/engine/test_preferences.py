"""A preferred place is given up before it ever started, and never because it was lost."""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest

from engine.worksite import Worksite, call
from patchyard.contracts.environment import Toolbox
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Site,
)
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.domain.events import EnvironmentEnded, EnvironmentStarted, Placed
from patchyard.domain.preference import Preference, PreferenceFell, ToolPreference
from patchyard.domain.resource import Resource
from patchyard.engine.places import Places
from patchyard.engine.routes import Routes

pytestmark = [pytest.mark.anyio]

BOX = Resource(name="box", type="container-instance", image="none/such:1")
TOOL = "execute_command"


class Down(Places):
    """Places of which the containers do not start."""

    async def toolbox(self, site: Site) -> tuple[EnvironmentHandle, Toolbox]:
        if site.kind == ExecutionEnvironment.CONTAINER:
            raise EnvironmentUnavailable("no container engine runs here")
        return EnvironmentHandle(environment_id="E", kind=site.kind, workspace_path="/"), _NONE


_NONE = cast("Toolbox", object())  # nobody calls it


@pytest.mark.parametrize("has_started", [False, True])
async def test_a_preference_falls_at_the_first_start_alone(
    site: Worksite, *, has_started: bool
) -> None:
    async with site.open() as (equipment, workflow):
        ledger = await site.ledger(equipment, await site.made(workflow, site.asked(call("x"))))
        handle = EnvironmentHandle(
            environment_id="E",
            kind=ExecutionEnvironment.CONTAINER,
            workspace_path="/",
            resource="box",
        )
        await ledger.record(Placed(kind="host", source="here", resources=(BOX,)))
        if has_started:
            await ledger.record(
                EnvironmentStarted(handle=handle, purpose="execute"),
                EnvironmentEnded(environment_id="E"),
            )
        preferred = ToolPreference(mode=Preference.PREFERRED)
        spec = replace(ledger.state.known, tool_preferences={TOOL: preferred})
        ledger.state = replace(ledger.state, spec=spec)
        routes = Routes(ledger, Down(equipment, ledger, _no_specs, "execute"))
        assert routes.of(TOOL).site == Site(ExecutionEnvironment.CONTAINER, "box")
        if has_started:
            with pytest.raises(EnvironmentUnavailable):
                await routes.arrived(TOOL)
            assert not ledger.state.fallen
            return
        route, _, _ = await routes.arrived(TOOL)
        assert route.site == Site(ExecutionEnvironment.PROCESS)
        fell = [event for _, _, event in await ledger.events() if isinstance(event, PreferenceFell)]
        assert fell == [PreferenceFell(place="box", cause="no container engine runs here")]


async def _no_specs() -> Mapping[Site, EnvironmentSpec]:
    raise AssertionError("nothing is started here")
