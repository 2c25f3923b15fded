"""Many plans in several processes against one budget: it is never passed, not by one token.

The provider counts for itself, and some of its answers are cut or refused. `PATCHYARD_SOAK` makes
it 20 plans at once; CI has 8.
"""

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from budgets.counting import CountingServer
from engine.worksite import Worksite
from services import REAL_ENVIRONMENT

pytestmark = [pytest.mark.service("bubblewrap"), pytest.mark.slow, pytest.mark.timeout(600)]

PROCESSES = 4
PLANS = 5 if REAL_ENVIRONMENT.get("PATCHYARD_SOAK") else 2  # of each
CREW = Path(__file__).with_name("crew.py")
LONGEST_S = 500
NAMES = ("nano_usd", "tokens", "held_nano_usd", "held_tokens")
BOOKS = (
    "SELECT nano_usd, tokens, held_nano_usd, held_tokens FROM purse WHERE project = '' AND day = ''"
)


@dataclass(kw_only=True)
class Office:
    """A repository, a provider, and the settings of whoever pays."""

    site: Worksite
    server: CountingServer
    environ: dict[str, str]

    async def crew(self, **told: Any) -> asyncio.subprocess.Process:
        """Start one process with plans."""
        words = {
            "environ": self.environ,
            "repository": str(self.site.repository),
            "model": "openai:gpt-4o",
            "plans": PLANS,
            **told,
        }
        return await asyncio.create_subprocess_exec(
            sys.executable, str(CREW), json.dumps(words), stdout=asyncio.subprocess.PIPE
        )

    def books(self) -> dict[str, int]:
        """What the purse says of the whole installation, and how many reservations are open."""
        database = sqlite3.connect(Path(self.environ["PATCHYARD_HOME"]) / "patchyard.db")
        row = database.execute(BOOKS).fetchone()
        (count,) = database.execute("SELECT count(*) FROM reservations").fetchone()
        database.close()
        return {**dict(zip(NAMES, row, strict=True)), "open": count}


@asynccontextmanager
async def office(folder: Path, budget: dict[str, Any], **options: Any) -> AsyncIterator[Office]:
    text = "".join(f"line {number}\n" for number in range(2000))
    site = Worksite.make(folder, {"a.txt": text})
    server = CountingServer(**options)
    async with server.running() as url:
        own = {
            "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": "k",
            "PATCHYARD_BUDGET": json.dumps(budget),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        try:
            yield Office(site=site, server=server, environ={**site.environ, **own})
        finally:
            await site.clear()


async def ended(process: asyncio.subprocess.Process) -> list[dict[str, Any]]:
    out, _ = await asyncio.wait_for(process.communicate(), LONGEST_S)
    found: list[dict[str, Any]] = json.loads(out.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    "budget", [{"total_tokens": 400_000}, {"day_usd": 1.5}], ids=["tokens", "money"]
)
async def test_plans_in_several_processes_never_pass_their_budget(
    tmp_path: Path, budget: dict[str, Any]
) -> None:
    async with office(tmp_path, budget, trouble=0.1) as found:
        crews = [await found.crew() for _ in range(PROCESSES)]
        results = [result for crew in crews for result in await ended(crew)]
        server, books = found.server, found.books()
    assert [result["code"] for result in results] == ["limit"] * (PROCESSES * PLANS)
    assert {result["exit"] for result in results} == {5}
    assert next(iter(budget)) in json.dumps([result["message"] for result in results]) or all(
        "this installation" in result["message"] for result in results
    )
    assert server.charged_tokens <= budget.get("total_tokens", float("inf"))
    assert server.charged_nano <= budget.get("day_usd", float("inf")) * 10**9
    assert books["tokens"] >= server.charged_tokens
    assert (books["held_tokens"], books["held_nano_usd"], books["open"]) == (0, 0, 0)
    used = books["tokens"] / budget["total_tokens"] if "total_tokens" in budget else 1.0
    assert used > 0.8


async def test_what_a_killed_process_had_set_aside_is_counted_once_and_frees_the_others(
    tmp_path: Path,
) -> None:
    limit = 400_000
    async with office(tmp_path, {"total_tokens": limit}, pause_s=0.3) as found:
        doomed, other = await found.crew(), await found.crew()
        assert doomed.stdout is not None
        plans = json.loads(await doomed.stdout.readline())
        await asyncio.wait_for(found.server.sixth.wait(), LONGEST_S)
        doomed.kill()
        await doomed.wait()
        first = await ended(other)
        again = await ended(await found.crew(resume=plans))
        server, books = found.server, found.books()
    assert {result["code"] for result in (*first, *again)} == {"limit"}
    assert server.charged_tokens <= limit
    assert server.charged_tokens <= books["tokens"] <= limit
    assert (books["held_tokens"], books["open"]) == (0, 0)
