"""The first of the seven steps: what is asked for and of what repository, once per base (C16)."""

import asyncio
from dataclasses import replace

from patchyard.contracts.actor import Background
from patchyard.contracts.analyst import Study
from patchyard.domain.analysis import Guide, Symbol, TaskAnalysed
from patchyard.domain.changeset import Base
from patchyard.domain.events import Noted
from patchyard.domain.meanings import restored
from patchyard.domain.task_words import analysed
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.rows import body_of

WITHOUT = frozenset({"recipe"})  # actors that read nothing of it
LONGEST_S = 60.0  # that a repository is read


async def analyse(equipment: Equipment, ledger: Ledger, base: Base) -> None:
    """Note what the task asks for and what the base is; a plan that was killed finds it there.

    Whatever goes wrong with the repository's part ends no plan: it is noted, and left out.
    """
    state = ledger.state
    is_known = state.analysed is not None and state.analysed.tree == base.tree
    if is_known or state.known.agent in WITHOUT:
        return
    started = equipment.clock.monotonic()
    try:
        async with asyncio.timeout(LONGEST_S):
            found = await _studied(equipment, ledger, base)
    except Exception as error:  # noqa: BLE001 - of hostile files; recorded, and the plan goes on
        problem = str(error) or type(error).__name__
        task = state.known.task
        found = TaskAnalysed(tree=base.tree, analysis=analysed(task), problem=problem[:500])
        ledger.note(Noted(text=f"the repository could not be looked at: {problem[:500]}"))
    ledger.note(replace(found, seconds=round(equipment.clock.monotonic() - started, 4)))


async def _studied(equipment: Equipment, ledger: Ledger, base: Base) -> TaskAnalysed:
    spec = ledger.state.known
    study: Study = await equipment.analyst.study(base, spec.task, tokens=spec.map_tokens)
    return TaskAnalysed(
        tree=base.tree,
        analysis=analysed(spec.task, study.named, files=study.context.files),
        context=study.context,
        owners=study.owners,
        guidance=body_of(study.guides),
        map=body_of(study.symbols),
        symbols=len(study.symbols),
        left_out=study.left_out,
        is_cached=study.is_cached,
    )


async def background(ledger: Ledger) -> Background | None:
    """Return what the actor is told of the task and its repository; None: nothing was found."""
    found = ledger.state.analysed
    if found is None or found.problem:
        return None
    guides, symbols = await ledger.value(found.guidance), await ledger.value(found.map)
    return Background(
        context=found.context,
        owners=found.owners,
        guides=tuple(restored(Guide, each) for each in guides or ()),
        symbols=tuple(restored(Symbol, each) for each in symbols or ()),
        map_tokens=ledger.state.known.map_tokens,
    )


__all__ = ["LONGEST_S", "WITHOUT", "analyse", "background"]
