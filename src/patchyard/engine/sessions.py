"""An actor at work in one phase: told what to do, given tools, with places for them to run in."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from patchyard.contracts.actor import Brief, Casting, Session
from patchyard.contracts.tool import Tool
from patchyard.domain.environment import IN_PLACE, EnvironmentSpec, Site
from patchyard.domain.invariant import reconcile
from patchyard.domain.network import instructions
from patchyard.domain.plan import Phase
from patchyard.domain.state import PlanState
from patchyard.domain.steps import Step
from patchyard.domain.tooling import Effect
from patchyard.engine.agent_loop import AgentLoop
from patchyard.engine.analysing import background
from patchyard.engine.budgeting import PlanMeter
from patchyard.engine.checkpoints import Checkpoints
from patchyard.engine.equipment import Equipment
from patchyard.engine.grounds import Ground
from patchyard.engine.inquiring import Inquiries
from patchyard.engine.ledger import Ledger
from patchyard.engine.lending import Lender
from patchyard.engine.persisting import model_recovers, persisting
from patchyard.engine.places import Places
from patchyard.engine.reaching import is_closed, reaching
from patchyard.engine.serving import Serving
from patchyard.engine.sites import general_kind, specs_for
from patchyard.engine.steering import Steering
from patchyard.engine.stepping import step
from patchyard.engine.tool_runner import ToolRunner
from patchyard.engine.watching import Watching


@asynccontextmanager
async def at_work(
    equipment: Equipment,
    ledger: Ledger,
    ground: Ground,
    steering: Steering,
    *,
    watching: Watching,
    inquiries: Inquiries,
    subject: str = "",
) -> AsyncIterator[tuple[AgentLoop, Places]]:
    """Open the actor's session and its environments, for the plan's phase; both end with the block.

    `subject` is the change that a review or a test is about, as the actor is shown it.
    """
    spec, phase = ledger.state.known, ledger.state.phase
    is_writing = phase == Phase.EXECUTE and spec.charter.is_writing
    manner = Phase.EXECUTE if is_writing else Phase.STRATEGIZE  # who judges reads as who plans

    async def specs() -> Mapping[Site, EnvironmentSpec]:
        return specs_for(
            equipment,
            ledger.plan_id,
            spec,
            await ground(),
            purpose=str(phase),
            is_writable=is_writing,
        )

    places = Places(equipment, ledger, specs, str(phase))
    async with AsyncExitStack() as closing:
        closing.push_async_callback(places.end)
        await places.find_again()
        path = spec.repository
        if general_kind(spec) in IN_PLACE:
            path = (await ground()).root
        reached = await closing.enter_async_context(reaching(equipment, ledger, phase, places))
        served = await Serving(equipment, ledger, places, reached).offered(manner)
        known = {**equipment.tools(path), **served}.items()
        tools = {name: tool for name, tool in known if spec.charter.may_use(name)}
        tools |= inquiries.offered()
        brief = _brief(ledger.state, phase, workspace_path=path, tools=tools)
        brief = replace(brief, subject=subject, background=await background(ledger))
        meter = PlanMeter(equipment, ledger, steering, on_wait=watching.on_wait)
        session = await _session(equipment, ledger, brief, steering, watching=watching, meter=meter)
        closing.push_async_callback(session.close)
        runner = ToolRunner(
            equipment,
            ledger,
            places,
            tools=tools,
            phase=manner,
            on_output=watching.on_output,
            checkpoints=_checkpoints(equipment, ledger, manner, ground, places),
            steering=steering,
            reaching=reached,
            inquiries=inquiries,
            lender=Lender(ledger=ledger, session=session, meter=meter),
        )
        yield AgentLoop(ledger, session, runner, steering, meter), places


def _checkpoints(
    equipment: Equipment, ledger: Ledger, phase: Phase, ground: Ground, places: Places
) -> Checkpoints | None:
    """Return who keeps the files; nothing is written while planning."""
    if phase != Phase.EXECUTE:
        return None
    return Checkpoints(equipment, ledger, ground, places)


async def _session(
    equipment: Equipment,
    ledger: Ledger,
    brief: Brief,
    steering: Steering,
    *,
    watching: Watching,
    meter: PlanMeter,
) -> Session:
    """Open the session; a model that is away for a while is waited for, as one in mid-work is."""
    with step(ledger, Step.MODEL) as going:
        casting = Casting(
            plan_id=ledger.plan_id,
            spec=ledger.state.known,
            phase=brief.phase,
            kind=str(ledger.state.task_kind or ""),
            on_text=watching.on_text,
            on_wait=watching.on_wait,
            on_terms=watching.on_terms,
            meter=meter,
            on_switch=ledger.record,
            on_chosen=going.came_to,
        )

        async def begun() -> Session:
            actor = await equipment.actor(casting)
            return await actor.begin(brief)

        return await persisting(begun, ledger, steering, model_recovers)


def _brief(
    state: PlanState, phase: Phase, *, workspace_path: str, tools: Mapping[str, Tool]
) -> Brief:
    """Return what the actor is told; while planning it is not even shown what writes."""
    spec = state.known
    specs = [tool.spec for tool in tools.values()]
    if phase == Phase.STRATEGIZE or not spec.charter.is_writing:
        specs = [each for each in specs if each.effect != Effect.WRITE]
    return Brief(
        plan_id=state.plan_id,
        phase=str(phase),
        task=spec.task,
        workspace_path=workspace_path,
        environment=str(general_kind(spec)),
        tools=tuple(specs),
        definition_of_done=spec.definition_of_done,
        invariants=tuple(i.text for i in reconcile(spec.invariants).effective),
        validation=(*spec.validate, *(gate.shown for gate in spec.gates)),
        strategy=state.strategy if phase == Phase.EXECUTE else "",
        steps=spec.steps,
        arguments=spec.arguments,
        findings=state.steered.findings,
        role=spec.charter.prompt,
        output=spec.charter.output,
        network=() if is_closed(spec.network, phase) else instructions(spec.network),
    )


__all__ = ["at_work"]
