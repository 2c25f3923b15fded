"""Providers that failed are looked after beside the work: no request finds out that one is away."""

import asyncio
from collections.abc import Sequence

import pytest

from models.servers import ChatServer
from models.test_failing_over import ASKED, Fake
from patchyard.domain.circuit import Position
from patchyard.domain.errors import ModelFailed, ModelUnavailable, UsageError
from patchyard.models import lookout
from patchyard.models.choosing import choose
from patchyard.models.circuits import Circuits
from patchyard.models.failing_over import FailingOverModel
from patchyard.models.lookout import Lookout
from patchyard.models.prices import shipped_prices
from patchyard.models.providers import Catalogue, ProviderSettings

pytestmark = pytest.mark.anyio

REFUSED = ModelUnavailable("nobody is there", details={"kind": "refused"})
GONE = ModelUnavailable("no such model", details={"kind": "no_model", "status": 404})
IDLE = ModelFailed("it hangs", details={"kind": "idle"})


class Bench:
    """Circuits over a clock of our own, and what looks come to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.circuits = Circuits(lambda: self.now)
        self.outcome: Sequence[str] | BaseException = ()
        self.looks: list[str] = []
        self.looked = asyncio.Event()

    async def look(self, provider: str) -> Sequence[str]:
        self.looks.append(provider)
        self.looked.set()
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    async def once(self, *chain: str) -> None:
        """Look once at those of the chain that are away."""
        made = Lookout(chain, self.circuits, self.look, every_s=0)
        self.looked.clear()
        made.wake()
        made.wake()  # one task is enough
        if made._task is not None:
            await self.looked.wait()
            await asyncio.sleep(0)
        await made.close()

    def position(self, name: str) -> Position:
        return self.circuits.of(name).position(self.now)


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_one_that_stays_away_costs_no_request_however_long(bench: Bench) -> None:
    first, second = Fake(name="a:m", outcomes=[REFUSED]), Fake(name="b:m")
    chain = FailingOverModel([first, second], bench.circuits)
    bench.outcome = REFUSED
    await chain.prepare()
    for _ in range(10):
        assert (await chain.complete(ASKED)).message.text == "b:m"
        await bench.once("a:m", "b:m")
        bench.now += lookout.EVERY_S
    assert len(first.asked) == 1
    bench.outcome = ("m",)
    await bench.once("a:m", "b:m")
    assert (await chain.complete(ASKED)).message.text == "a:m"  # long before its time is over
    assert set(bench.looks) == {"a"}
    bench.looks.clear()
    await bench.once("a:m", "b:m")
    assert bench.looks == []  # nobody is away


@pytest.mark.parametrize(
    ("error", "outcome", "position"),
    [
        (REFUSED, ("m",), Position.HALF_OPEN),
        (REFUSED, (), Position.HALF_OPEN),
        (REFUSED, ModelFailed("no list", details={"status": 404}), Position.HALF_OPEN),
        (REFUSED, ModelFailed("busy", details={"status": 500}), Position.OPEN),
        (REFUSED, TimeoutError(), Position.OPEN),
        (IDLE, ("m",), Position.OPEN),  # no list can say that answers come to an end again
    ],
)
async def test_a_list_ends_the_wait_only_for_what_it_can_tell(
    error: ModelFailed, outcome: Sequence[str] | BaseException, position: Position, bench: Bench
) -> None:
    bench.circuits.failed("a:m", error)
    bench.outcome = outcome
    await bench.once("a:m")
    assert bench.position("a") == position


async def test_a_model_that_was_missing_is_waited_for_in_the_list(bench: Bench) -> None:
    bench.circuits.failed("a:m", GONE)
    for names in (("other",), ()):
        bench.outcome = names
        await bench.once("a:m", "a:n")
        assert bench.position("a:m") == Position.OPEN
    assert bench.circuits.of("a:m").wait_s(0.0) == lookout.AWAY_S
    bench.outcome = ("m:latest",)
    await bench.once("a:m")
    assert bench.position("a:m") == Position.HALF_OPEN


async def test_looks_do_not_outweigh_requests_that_fail_again(bench: Bench) -> None:
    bench.outcome = ("m",)
    for expected in (Position.HALF_OPEN, Position.OPEN):
        bench.circuits.failed("a:m", REFUSED)
        await bench.once("a:m")
        assert bench.position("a") == expected


async def test_plans_of_one_process_look_once_and_nobody_looks_into_a_file(bench: Bench) -> None:
    assert bench.circuits.may_look("a", 3.0)
    assert not bench.circuits.may_look("a", 3.0)
    await Lookout(("a:m",), bench.circuits, bench.look)._one("a")
    assert bench.looks == []
    bench.now = 3.0
    assert bench.circuits.may_look("a", 3.0)
    bench.circuits.failed("scripted:x", REFUSED)
    bench.outcome = UsageError("no provider")
    await bench.once("scripted:x")
    assert bench.looks == ["scripted"]


async def test_looking_ends_when_a_request_was_answered(bench: Bench) -> None:
    bench.circuits.failed("a:m", REFUSED)
    made = Lookout(("a:m",), bench.circuits, bench.look, every_s=0)
    made.wake()
    task = made._task
    assert task is not None
    await bench.looked.wait()
    bench.circuits.succeeded("a:m")
    await task
    await made.close()


async def test_a_chain_that_is_closed_looks_no_more(bench: Bench) -> None:
    chain = FailingOverModel(
        [Fake(name="a:m", outcomes=[REFUSED]), Fake(name="b:m")], bench.circuits, look=bench.look
    )
    await chain.prepare()
    await chain.complete(ASKED)
    assert chain._lookout is not None
    task = chain._lookout._task
    assert task is not None
    await chain.close()
    assert task.cancelled()


async def test_of_several_that_are_configured_one_that_answers_is_taken() -> None:
    async with ChatServer().running() as url:
        rows = {"a-gone": "http://127.0.0.1:9/v1", "b-there": url}
        configured = {
            name: ProviderSettings(kind="openai-compatible", base_url=place, default_model="tiny")
            for name, place in rows.items()
        }
        made = Catalogue(environ={}, prices=shipped_prices(), configured=configured)
        assert (await choose(made)).name == "b-there:tiny"
    assert (await choose(made)).name == "a-gone:tiny"  # nobody is there: the first is waited for
