"""A repository and a script for each role, of which one asks the others."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite, call
from patchyard.assembly import open_equipment
from patchyard.domain.errors import PatchyardError
from patchyard.domain.events import Event, ToolCallRequested, ToolCallSettled
from patchyard.engine.ledger import Ledger
from patchyard.intake import Asked, spec_of

__all__ = ["ASKS", "Office", "Struck", "answers", "struck", "told"]

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
        """Run or carry on; see `Worksite.carried`."""
        repository = str(self.site.repository)
        asked = Asked(task="Do it", kind="process", repository=repository)
        spec = spec_of(Asked(**{**vars(asked), **options}), self.environ)
        return await self.site.carried(self.environ, plan_id or spec)

    async def plans(self) -> list[str]:
        """Return all plans, newest first; those that work for others too."""
        async with open_equipment(self.environ) as equipment:
            return [stream for stream, _ in await equipment.store.summaries.summaries()]

    @asynccontextmanager
    async def ledger(self, plan_id: str) -> AsyncIterator[Ledger]:
        """Yield what the journal holds of a plan."""
        async with open_equipment(self.environ) as equipment:
            yield await self.site.ledger(equipment, plan_id)


def told(events: list[Any], name: str = "ask_role") -> list[ToolCallSettled]:
    """Return what the calls of a tool came to."""
    named = {e.call_id for e in events if isinstance(e, ToolCallRequested) and e.name == name}
    return [e for e in events if isinstance(e, ToolCallSettled) and e.call_id in named]


class Struck(BaseException):
    """What a kill looks like from inside: nothing after it runs."""


@contextmanager
def struck(patching: pytest.MonkeyPatch, kind: type[Event], *, is_written: bool) -> Iterator[None]:
    """Let the engine of this block end with the first event of a kind, written or not."""
    real = Ledger.record

    async def record(ledger: Ledger, *events: Event) -> None:
        is_it = any(isinstance(each, kind) for each in events)
        if is_written or not is_it:
            await real(ledger, *events)
        if is_it:
            raise Struck

    with patching.context() as patch:
        patch.setattr(Ledger, "record", record)
        with pytest.raises(Struck):
            yield
