"""How many tasks come to their end although things go wrong, and whose fault the others are.

`PATCHYARD_TASKS` sets how many there are (a sample in CI, 300 in `make soak`), `PATCHYARD_SEED`
the seed. The model is scripted by hand and answers over loopback HTTP.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.faults import Outcome, carried_out, figures
from chaos.killing import SEED, amount

TASKS = amount("PATCHYARD_TASKS", sample=9, soak=300)
AT_ONCE = 3
COMPLETED = 0.9  # more than that share must come to its end (C30)
LARGE = 100  # tasks, of which the hopeless ones are few enough to count in the share
ENGINES = 0.05  # failures that the engine caused, at most

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.service("bubblewrap"),
    pytest.mark.slow,
    pytest.mark.timeout(900 + 30 * TASKS),
]


async def test_nearly_all_tasks_complete_and_hardly_one_fails_by_the_engine(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> Outcome:
        folder = tmp_path / str(number)
        folder.mkdir()
        async with places:
            return await carried_out(folder, SEED * 10_000 + number)

    ended = await asyncio.gather(*map(one, range(TASKS)))

    said = figures(ended)
    for name, value in said.items():
        record_property(name, value)
    assert [(o.faults, o.wrong) for o in ended if o.wrong] == [], said
    failed = [(o.cause, o.words, o.faults) for o in ended if o.cause]
    engines = sum(cause.startswith("the engine's") for cause, _, _ in failed)
    assert engines <= len(ended) * ENGINES, failed
    incomplete = [(o.lives, o.cause, o.faults) for o in ended if not o.is_complete]
    possible = [o for o in ended if not o.is_hopeless]
    done = [o for o in possible if o.is_complete]
    assert len(done) > COMPLETED * len(possible), incomplete
    assert all(o.cause for o in ended if o.is_hopeless)
    if TASKS >= LARGE:
        assert len(done) > COMPLETED * len(ended), incomplete
