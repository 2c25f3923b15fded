"""A sloppy model drives whole plans: each ends well, or in a clear state that is the model's."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from patchyard.domain.plan import State
from patchyard.models.slips import SLIPS
from patchyard.tools.shape import OUTPUT_CHARS
from services import REAL_ENVIRONMENT
from sloppy.bench import Bench, Ended, OverheardModel, bench
from sloppy.errands import Task, task

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

SLOW = {"flood", "interactive", "never_ending", "prompting"}  # every fourth model has them too
QUICK = tuple(kind for kind in SLIPS if kind not in SLOW)
#: `make soak` carries 500 tasks out; a sample of them otherwise.
NUMBERS = range(1000, 1500) if REAL_ENVIRONMENT.get("PATCHYARD_SOAK") else range(1, 25)
#: What a plan may come to because of its model: exit code by error code.
CLEAR = {"failed": 1, "limit": 5, "validation_failed": 1}


def working(number: int, made: Task) -> OverheardModel:
    """Every tenth model slips in one way only, and never does the right thing where it applies."""
    if number % 10:
        kinds = QUICK if number % 4 else tuple(SLIPS)
        return OverheardModel(seed=number, errand=made.working, kinds=kinds)
    kind = sorted(SLIPS)[number // 10 % len(SLIPS)]
    return OverheardModel(seed=number, errand=made.working, kinds=(kind,), is_stubborn=True)


def planning(number: int, made: Task) -> OverheardModel:
    """A model that slips at most once while it plans."""
    return OverheardModel(seed=-number, errand=made.planning, kinds=QUICK, slips_at_most=1)


def check_helpful(ended: Ended) -> None:
    """Each answer has the size that was promised, and a failure says what is wrong."""
    for _, text in ended.told:
        assert text.strip()
        assert len(text) <= 4 * OUTPUT_CHARS
        if text.startswith("failed ("):
            code, _, words = text.partition("): ")
            assert code.removeprefix("failed (").isupper()
            assert len(words.split()) >= 3, text


def check_clear(ended: Ended, *, is_stubborn: bool) -> None:
    """A plan is complete, or the plan and the error say the same of what the model did."""
    state = ended.state
    assert not state.open_calls
    assert not state.environments
    assert {one.error for one in ended.settled}.isdisjoint({"OUTCOME_UNKNOWN", "INTERNAL_ERROR"})
    if ended.error is None:
        assert state.state is State.COMPLETE
        assert state.summary
        return
    assert is_stubborn, ended.error
    assert CLEAR.get(ended.error.code) == ended.error.exit_code, ended.error
    assert len(ended.error.message.split()) >= 4
    assert ended.error.hint
    assert state.failure is not None
    assert state.failure.message == ended.error.message
    assert state.state in {State.ERRORED, State.CONSTRAINED}


async def one(at: Bench, number: int, made: Task) -> tuple[str, Ended]:
    """Carry one task out; every third plan is proven."""
    model = working(number, made)
    options: dict[str, Any] = {"validate": (made.check,), "rounds": 2} if number % 3 == 0 else {}
    ended = await at.carry_out(planning(number, made), model, **options)
    check_helpful(ended)
    check_clear(ended, is_stubborn=model.is_stubborn)
    if ended.error is not None:
        return f"ended: {' '.join(ended.error.message.split()[:4])}", ended
    is_mended = await at.content(ended, made.file) == made.mended
    assert is_mended or (not options and (model.is_stubborn or model.slipped["too_early"]))
    return "mended" if is_mended else "ended unmended", ended


async def many(numbers: Iterable[int], folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Carry tasks out; return how they ended and which slips there were."""
    ends: Counter[str] = Counter()
    slips: Counter[str] = Counter()
    tasks = {number: task(number, str(folder / "repo")) for number in numbers}
    async with bench(folder, {made.file: made.broken for made in tasks.values()}) as at:
        for number, made in tasks.items():
            how, ended = await one(at, number, made)
            ends[how] += 1
            slips += ended.slips
    return ends, slips


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_sloppy_plans_end_well_or_in_a_clear_state(tmp_path: Path) -> None:
    ends, slips = await many(NUMBERS, tmp_path)
    assert sum(ends.values()) == len(NUMBERS)
    assert ends["mended"] >= len(NUMBERS) * 0.84
    assert len(slips) >= 12
    if len(NUMBERS) == 500:
        assert set(slips) == set(SLIPS)
        assert min(slips.values()) >= 5
