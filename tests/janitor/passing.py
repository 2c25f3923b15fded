"""Time that goes on as a test says, and passes of the janitor in it."""

from dataclasses import dataclass, replace
from pathlib import Path

from engine.worksite import ADD, Worksite, call, done
from patchyard.contracts.clock import Clock
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.codec import from_json
from patchyard.domain.errors import ModelFailed
from patchyard.domain.events import EnvironmentStarted, Moved
from patchyard.domain.plan import Phase, State
from patchyard.domain.retention import DAY_S, Family, Retention
from patchyard.engine.equipment import Equipment
from patchyard.engine.janitor import Janitor, Sweep
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.sites import general_site, specs_for
from patchyard.engine.workflow import Workflow
from patchyard.stores.sqlite import SQLiteJournal

__all__ = ["Later", "bodies", "gone", "left", "running", "stopped", "swept", "tree", "worked"]


@dataclass(frozen=True)
class Later:
    """A clock so many seconds ahead of another."""

    clock: Clock
    seconds: float

    def now(self) -> float:
        """See contracts.clock.Clock."""
        return self.clock.now() + self.seconds

    def monotonic(self) -> float:
        """See contracts.clock.Clock."""
        return self.clock.monotonic()

    def new_id(self) -> str:
        """See contracts.clock.Clock."""
        return self.clock.new_id()


async def swept(equipment: Equipment, *, days: float, is_dry: bool = False) -> Sweep:
    """Pass once, so many days from now."""
    later = replace(equipment, clock=Later(equipment.clock, days * DAY_S))
    return await Janitor(later, kept=Retention(), is_dry=is_dry).sweep()


def gone(sweep: Sweep) -> dict[Family, list[str]]:
    """Return the names of what a pass returned, by family."""
    found: dict[Family, list[str]] = {}
    for each in sweep.things:
        if each.is_done:
            found.setdefault(each.verdict.found.family, []).append(each.verdict.found.name)
    return found


def left(site: Worksite) -> list[str]:
    """Return the names of the workspaces that are there."""
    folder = site.folder / "workspaces/tasks"
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))


async def worked(site: Worksite, workflow: Workflow, *, content: str = "new\n") -> str:
    """Carry out a plan that adds a file; return its id."""
    adding = call("write_file", path="new.txt", content=content)
    plan_id = await site.made(workflow, site.asked(adding))
    await workflow.run(plan_id)
    return plan_id


async def stopped(site: Worksite, workflow: Workflow) -> str:
    """Make a plan whose model gave up after its first call."""
    asked = site.asked(ADD)
    site.script([ADD])
    plan_id = await site.made(workflow, asked)
    try:
        await workflow.run(plan_id)
    except ModelFailed:
        site.script([ADD, done()])
        return plan_id
    raise AssertionError("the script was to end too early")


def tree(folder: Path) -> list[str]:
    """Return all that lies below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


async def bodies(equipment: Equipment) -> int:
    """Return how many bodies the journal holds."""
    journal = equipment.store.journal
    assert isinstance(journal, SQLiteJournal)
    return int(
        await journal.look(lambda db: db.execute("SELECT count(*) FROM bodies").fetchone()[0])
    )


async def running(equipment: Equipment, plan_id: str) -> str:
    """Start an environment for a plan as a killed engine had; return its name."""
    async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
        state = ledger.state
        assert state.base is not None
        assert state.workspace is not None
        ref = from_json(WorkspaceRef, state.workspace)
        await equipment.workspaces.open(state.base, ref)
        spec = specs_for(equipment, plan_id, state.known, ref, purpose="execute", is_writable=True)
        here = general_site(state.known)
        handle = await equipment.environment(here.kind).start(spec[here])
        await ledger.record(
            Moved(phase=Phase.EXECUTE, state=State.PROCESSING),
            EnvironmentStarted(handle=handle, purpose="execute"),
        )
    return handle.environment_id
