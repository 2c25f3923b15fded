"""A repository and a script for each role, of which one asks the others."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from engine.worksite import Worksite, call
from patchyard.assembly import open_equipment
from patchyard.domain.errors import PatchyardError
from patchyard.engine.ledger import Ledger
from patchyard.engine.report import plan_data
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, spec_of

__all__ = ["ASKS", "Office", "answers"]

ASKS = call("ask_role", role="architect", question="One queue or two?")


def answers(text: str) -> Mapping[str, Any]:
    """Return the scripted reply that gives an answer."""
    return call("finish", summary=text)


class Office:
    """One worksite whose roles have a script each."""

    def __init__(self, folder: Path, **scripts: Sequence[Mapping[str, Any]]) -> None:
        self.folder = folder
        self.site = Worksite.make(folder, {"a.txt": "a\n"})
        self.config = folder / "config" / "patchyard"
        (self.config / "roles").mkdir(parents=True)
        chains = {}
        for role, replies in scripts.items():
            self.script(role, *replies)
            chain = {"provider": "scripted", "default_model": str(folder / f"{role}.json")}
            chains[role] = chain
        (self.config / "models.yaml").write_text(json.dumps({"roles": chains}))
        self.environ = {**self.site.environ, "XDG_CONFIG_HOME": str(folder / "config")}

    def script(self, role: str, *replies: Mapping[str, Any], **phases: Any) -> None:
        """Write what the model of a role says from now on."""
        body = {"note": "written by hand", "execute": list(replies), **phases}
        (self.folder / f"{role}.json").write_text(json.dumps(body))

    def own_role(self, name: str, policy: str) -> None:
        """Write a role of the user's own."""
        (self.config / "roles" / f"{name}.yaml").write_text(policy)
        (self.config / "roles" / f"{name}.md").write_text("Be brief.\n")

    async def run(
        self, plan_id: str = "", **options: Any
    ) -> tuple[Mapping[str, Any], list[Any], PatchyardError | None]:
        """Run or carry on; the plan's data, its events, what it failed with."""
        error = None
        async with open_equipment(self.environ) as equipment:
            workflow = Workflow(equipment)
            if not plan_id:
                repository = str(self.site.repository)
                asked = Asked(task="Do it", kind="process", repository=repository)
                spec = spec_of(Asked(**{**vars(asked), **options}), self.environ)
                plan_id = await workflow.create(spec)
            try:
                await workflow.run(plan_id)
            except PatchyardError as failure:
                error = failure
            ledger = await self.site.ledger(equipment, plan_id)
            data = await plan_data(ledger)
            events = [event for _, _, event in await ledger.events()]
        await self.site.clear()
        return data, events, error

    async def plans(self) -> list[str]:
        """Return all plans, newest first; those that work for others too."""
        async with open_equipment(self.environ) as equipment:
            return [stream for stream, _ in await equipment.store.summaries.summaries()]

    @asynccontextmanager
    async def ledger(self, plan_id: str) -> AsyncIterator[Ledger]:
        """Yield what the journal holds of a plan."""
        async with open_equipment(self.environ) as equipment:
            yield await self.site.ledger(equipment, plan_id)
