"""A repository, a home and a scripted model to drive the workflow with, in this process."""

import json
import os
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchyard.assembly import open_equipment
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.codec import from_json
from patchyard.domain.errors import JournalBroken, PatchyardError
from patchyard.domain.events import Event
from patchyard.domain.plan import PlanSpec
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.report import plan_data
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, spec_of


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return one scripted reply that makes one call."""
    return {"calls": [{"name": name, "arguments": arguments}]}


def done(summary: str = "done") -> dict[str, Any]:
    """Return the scripted reply that ends a phase."""
    return {"finish": summary}


ADD = call("write_file", path="new.txt", content="new\n")
"""A scripted reply that makes one new file."""


@dataclass(kw_only=True)
class Worksite:
    """One test's repository and home."""

    folder: Path
    heard: list[Event] = field(default_factory=list)
    workspaces: Path | None = None  # where else than below `folder`

    @classmethod
    def make(cls, folder: Path, files: Mapping[str, str]) -> "Worksite":
        """Commit `files` in a new repository."""
        repository = folder / "repo"
        for name, text in files.items():
            path = repository / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        identity = ["-c", "user.name=T", "-c", "user.email=t@localhost"]
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
            subprocess.run(["git", *identity, *words], cwd=repository, check=True)
        return cls(folder=folder)

    @property
    def repository(self) -> Path:
        """The user's checkout."""
        return self.folder / "repo"

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the engine."""
        return {
            **os.environ,
            "PATCHYARD_HOME": str(self.folder / "home"),
            "WORKSPACE_DIR": str(self.workspaces or self.folder / "workspaces"),
        }

    def script(
        self, execute: Sequence[Mapping[str, Any]], strategize: Sequence[Mapping[str, Any]] = ()
    ) -> str:
        """Write a script and return the model's name."""
        body: dict[str, Any] = {"note": "written by hand", "execute": list(execute)}
        if strategize:
            body["strategize"] = list(strategize)
        path = self.folder / "script.json"
        path.write_text(json.dumps(body))
        return f"scripted:{path}"

    def asked(self, *execute: Mapping[str, Any], **options: Any) -> Asked:
        """Return what a `run` with that script asks for."""
        strategize = options.pop("strategize", ())
        return self.asked_of(self.script([*execute, done()], strategize), **options)

    def asked_of(self, model: str, **options: Any) -> Asked:
        """Return what a `run` with that model asks for."""
        options.setdefault("kind", "process")
        return Asked(task="do it", repository=str(self.repository), model=model, **options)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Equipment, Workflow]]:
        """Open an engine, as one command does; its workspaces are unmounted at the end."""
        async with open_equipment(self.environ) as equipment:
            yield equipment, Workflow(equipment, watching=Watching(on_event=self.heard.append))

    async def made(self, workflow: Workflow, asked: Asked) -> str:
        """Make a plan of `asked` and return its id."""
        return await workflow.create(spec_of(asked, self.environ))

    async def ledger(self, equipment: Equipment, plan_id: str) -> Ledger:
        """Read the plan back from the journal."""
        return await Ledger.open(equipment.store, equipment.clock, plan_id)

    async def carried(
        self, environ: Mapping[str, str], plan: str | PlanSpec
    ) -> tuple[Mapping[str, Any], list[Any], PatchyardError | None]:
        """Run a new plan, or carry one on by its id; its data, its events, what it failed with."""
        error = None
        async with open_equipment(environ) as equipment:
            workflow = Workflow(equipment)
            plan_id = plan if isinstance(plan, str) else await workflow.create(plan)
            try:
                await workflow.run(plan_id)
            except PatchyardError as failure:
                error = failure
            ledger = await self.ledger(equipment, plan_id)
            data = await plan_data(ledger)
            events = [event for _, _, event in await ledger.events()]
        await self.clear()
        return data, events, error

    async def clear(self) -> None:
        """Remove what the plans left, environments and workspaces, as far as they can be read."""
        async with open_equipment(self.environ) as equipment:
            for stream, _ in await equipment.store.summaries.summaries():
                try:
                    state = (await self.ledger(equipment, stream)).state
                except JournalBroken:
                    continue
                for live in state.environments.values():
                    await equipment.environment(live.handle.kind).end(live.handle)
                if state.workspace is not None:
                    workspace = from_json(WorkspaceRef, state.workspace)
                    await equipment.workspaces.remove(workspace)


__all__ = ["Worksite", "call", "done"]
