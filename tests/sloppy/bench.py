"""An engine whose actor is a sloppy model, and what came of its plans."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.worksite import Worksite
from patchyard.actors.model import ModelActor
from patchyard.contracts.actor import Actor, Casting
from patchyard.contracts.model import OnText
from patchyard.domain.errors import PatchyardError
from patchyard.domain.events import Event, ToolCallSettled
from patchyard.domain.messages import ModelReply, ModelRequest, Speaker
from patchyard.domain.state import PlanState
from patchyard.engine.equipment import Equipment
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, spec_of
from patchyard.models.sloppy import SloppyModel


@dataclass(kw_only=True)
class OverheardModel(SloppyModel):
    """A sloppy model that keeps what it was told, with the slip before it."""

    told: list[tuple[str, str]] = field(default_factory=list)  # last slip, the answer to it
    _seen: int = 0

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        slip = self.last_slip
        for message in request.messages[self._seen :]:
            if message.speaker in {Speaker.TOOL, Speaker.USER} and self._seen:
                self.told.append((slip, message.text))
        self._seen = len(request.messages) + 1  # its own reply comes next
        return await super().complete(request, on_text=on_text)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How one plan ended."""

    state: PlanState
    error: PatchyardError | None
    told: Sequence[tuple[str, str]]
    slips: Counter[str]
    settled: Sequence[ToolCallSettled]


@dataclass(kw_only=True)
class Bench:
    """One engine over one repository."""

    site: Worksite
    equipment: Equipment

    async def carry_out(
        self, planning: OverheardModel, working: OverheardModel, **options: Any
    ) -> Ended:
        """Run one plan with these models."""
        models = {"strategize": planning, "execute": working}

        async def actor(casting: Casting) -> Actor:
            return ModelActor(model=models[casting.phase])

        events: list[Event] = []
        equipment = replace(self.equipment, actor=actor)
        workflow = Workflow(equipment, watching=Watching(on_event=events.append))
        asked = replace(ASKED, repository=str(self.site.repository), **options)
        plan_id = await workflow.create(spec_of(asked, self.site.environ))
        error = None
        try:
            await workflow.run(plan_id)
        except PatchyardError as failure:
            error = failure
        return Ended(
            state=(await self.site.ledger(equipment, plan_id)).state,
            error=error,
            told=[*planning.told, *working.told],
            slips=planning.slipped + working.slipped,
            settled=[event for event in events if isinstance(event, ToolCallSettled)],
        )

    async def content(self, ended: Ended, path: str) -> str:
        """Return what a file holds in the tree that a plan came to."""
        captured = ended.state.changeset
        assert captured is not None
        (store,) = (self.site.folder / "home" / "trees").glob("*/store.git")
        spot = f"{captured.tree}:{path}"
        done = await asyncio.create_subprocess_exec(
            *("git", "--git-dir", str(store), "show", spot), stdout=asyncio.subprocess.PIPE
        )
        return (await done.communicate())[0].decode()


ASKED = Asked(task="Mend the file", model="sloppy:fake", kind="process", steps=40)


@asynccontextmanager
async def bench(folder: Path, files: dict[str, str]) -> AsyncIterator[Bench]:
    """Open an engine over a new repository with `files`."""
    site = Worksite.make(folder, files)
    async with site.open() as (equipment, _):
        yield Bench(site=site, equipment=equipment)
    await site.clear()
