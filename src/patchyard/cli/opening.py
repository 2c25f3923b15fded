"""The engine, opened by a command; for one plan by what was typed: looked up, or owned."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from patchyard.clients.allocator import keep_one_heap
from patchyard.engine.equipment import Equipment
from patchyard.engine.finding import find_plan
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService


@asynccontextmanager
async def engine_opened() -> AsyncIterator[Equipment]:
    """Yield the engine of this installation. Raises StateRefusal."""
    from patchyard.assembly import open_equipment  # noqa: PLC0415 - heavy, and only now needed

    keep_one_heap()
    async with open_equipment(os.environ) as equipment:
        yield equipment


@asynccontextmanager
async def opened(typed: str) -> AsyncIterator[tuple[Equipment, str]]:
    """Yield the engine and the id of the plan that `typed` names here. Raises UsageError."""
    async with engine_opened() as equipment:
        here = str(Path.cwd())
        yield (
            equipment,
            await find_plan(
                equipment.store.summaries, typed, repository=here, is_more_taken=_is_more_taken()
            ),
        )


def _is_more_taken() -> bool:
    """Whether the command that is called takes further words beside a plan."""
    context = click.get_current_context(silent=True)
    taken = context.command.params if context is not None else []
    return sum(isinstance(each, click.Argument) for each in taken) > 1


@asynccontextmanager
async def owned(typed: str) -> AsyncIterator[tuple[Equipment, Ledger]]:
    """Yield the engine and the plan's ledger, which nobody else changes. Raises Conflict."""
    async with (
        opened(typed) as (equipment, plan_id),
        PlanLifecycleService(equipment).owned(plan_id) as ledger,
    ):
        yield equipment, ledger


__all__ = ["engine_opened", "opened", "owned"]
