"""What a process asks of a provider stays within its rates."""

import asyncio

import pytest

from models.servers import ChatServer
from patchyard.domain.messages import Message, ModelRequest, Speaker
from patchyard.domain.throttle import Rates, Sent, wait_s
from patchyard.models.limited import Throttle
from patchyard.models.prices import shipped_prices
from patchyard.models.providers import Catalogue, ProviderSettings

ASKED = ModelRequest(messages=(Message(speaker=Speaker.USER, text="hello"),))


@pytest.mark.parametrize(
    ("rates", "sent", "tokens", "wait"),
    [
        (Rates(), (), 10, 0.0),
        (Rates(requests_per_minute=2), (1.0,), 10, 0.0),
        (Rates(requests_per_minute=2), (1.0, 2.0), 10, 51.0),
        (Rates(requests_per_minute=1), (1.0, 2.0), 10, 52.0),
        (Rates(tokens_per_minute=100), (1.0, 2.0), 40, 51.0),
        (Rates(tokens_per_minute=100), (1.0, 2.0), 70, 52.0),
        (Rates(tokens_per_minute=100), (1.0,), 20, 0.0),
        (Rates(tokens_per_minute=10), (), 20, 0.0),  # more than a minute's: when nothing else was
        (Rates(tokens_per_minute=10), (5.0,), 20, 55.0),
    ],
)
def test_how_long_a_request_waits(
    rates: Rates, sent: tuple[float, ...], tokens: int, wait: float
) -> None:
    earlier = [Sent(at=at, tokens=40) for at in sent]
    assert wait_s(rates, earlier, tokens, 10.0) == wait


@pytest.mark.anyio
async def test_who_is_over_the_rates_waits_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waited, said = 0.0, [], []

    async def sleep(seconds: float) -> None:
        nonlocal now
        waited.append(seconds)
        now += seconds

    monkeypatch.setattr("patchyard.models.limited.asyncio.sleep", sleep)
    throttle = Throttle(Rates(requests_per_minute=1, tokens_per_minute=50), lambda: now)
    async with throttle.turn(10, told=lambda: said.append(1)) as took:
        took.append(50)
    assert waited == []
    async with throttle.turn(10, told=lambda: said.append(1)):
        pass
    assert now == pytest.approx(60, abs=1.1)
    assert said == [1]


@pytest.mark.anyio
async def test_no_more_are_asked_at_once_than_may_be_by_all_models_of_a_provider() -> None:
    most = under_way = 0
    throttle = Throttle(Rates(concurrent=2))

    async def one() -> None:
        nonlocal most, under_way
        async with throttle.turn(1, told=lambda: None):
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.02)
            under_way -= 1

    await asyncio.gather(*(one() for _ in range(6)))
    assert most == 2


@pytest.mark.anyio
async def test_who_came_first_is_asked_first_and_who_gives_up_leaves_the_line() -> None:
    throttle = Throttle(Rates(concurrent=1))
    order: list[int] = []
    told: list[int] = []

    async def one(number: int) -> None:
        async with throttle.turn(1, told=lambda: told.append(number)):
            order.append(number)

    async with throttle.turn(1, told=lambda: None):
        tasks = [asyncio.create_task(one(number)) for number in range(5)]
        await asyncio.sleep(0)  # all of them are in line
        tasks[2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (order, told) == ([0, 1, 3, 4], [0, 1, 2, 3, 4])


@pytest.mark.anyio
async def test_models_of_one_provider_share_its_rates() -> None:
    async with ChatServer().running() as url:
        rates = Rates(requests_per_minute=100)
        house = ProviderSettings(kind="openai-compatible", base_url=url, rates=rates)
        made = Catalogue(environ={}, prices=shipped_prices(), configured={"house": house})
        for _ in range(2):
            model = made.open("house:tiny")
            await model.prepare()
            assert model.facts.name == "house:tiny"
            await model.complete(ASKED)
            await model.close()
        throttle = made.throttles.of("house", rates)
    assert [sent.tokens for sent in throttle._sent] == [18, 18]
