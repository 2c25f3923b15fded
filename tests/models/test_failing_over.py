"""A chain of models as one: who is asked, who is left alone, and what is paid for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from patchyard.contracts.model import OnText
from patchyard.domain.errors import LimitReached, ModelFailed, ModelUnavailable
from patchyard.domain.failover import ModelSwitched, Trouble
from patchyard.domain.messages import (
    Message,
    ModelFacts,
    ModelReply,
    ModelRequest,
    Speaker,
    StopReason,
    Usage,
)
from patchyard.models.circuits import Circuits
from patchyard.models.failing_over import FailingOverModel

pytestmark = pytest.mark.anyio

HELLO = Message(speaker=Speaker.USER, text="hello")
ASKED = ModelRequest(messages=(HELLO,), size=100)


@dataclass(kw_only=True)
class Fake:
    """A model whose every request comes to the next of `outcomes`, then to a good answer."""

    name: str
    outcomes: list[Trouble | StopReason | BaseException] = field(default_factory=list)
    missing: Trouble | None = None  # raised when it is prepared
    asked: list[ModelRequest] = field(default_factory=list)
    is_closed: bool = False

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts(name=self.name)

    async def prepare(self) -> ModelFacts:
        if self.missing is not None:
            raise self.missing
        return self.facts

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        self.asked.append(request)
        outcome = self.outcomes.pop(0) if self.outcomes else StopReason.DONE
        if isinstance(outcome, BaseException):
            raise outcome
        if on_text is not None:
            on_text(self.name)
        said = Message(speaker=Speaker.ASSISTANT, text=self.name)
        usage = Usage(input_tokens=10, output_tokens=1, usd=0.5)
        return ModelReply(message=said, usage=usage, stop=outcome, model=self.name)

    async def close(self) -> None:
        self.is_closed = True


@dataclass(kw_only=True)
class Chain:
    """A chain of fakes under a clock of the test's own."""

    models: Sequence[Fake]
    now: float = 0.0
    switches: list[ModelSwitched] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.circuits = Circuits(lambda: self.now)
        self.model = FailingOverModel(self.models, self.circuits, on_switch=self._switched)

    async def _switched(self, event: ModelSwitched) -> None:
        self.switches.append(event)

    async def ask(self, request: ModelRequest = ASKED) -> str:
        return (await self.model.complete(request)).message.text


def away(status: int = 0) -> ModelUnavailable:
    details = {"status": status, "kind": "status"} if status else {"kind": "refused"}
    return ModelUnavailable("gone", details=details)


def busy(wait_s: float | None = None) -> ModelFailed:
    details = {"kind": "rate_limited", "retry_after_s": wait_s}
    return ModelFailed("slow down", details=details, retryable=True)


async def test_the_next_one_gets_the_same_request_and_the_switch_is_told() -> None:
    first, second = Fake(name="a:1", outcomes=[busy(30)]), Fake(name="b:2")
    chain = Chain(models=[first, second])
    assert (await chain.model.prepare()).name == "a:1"
    assert await chain.ask() == "b:2"
    assert second.asked == first.asked
    assert chain.model.facts.name == "b:2"
    (event,) = chain.switches
    assert (event.from_model, event.to_model, event.kind) == ("a:1", "b:2", "rate_limited")
    assert await chain.ask() == "b:2"
    assert len(first.asked) == 1  # left alone
    chain.now = 31
    assert await chain.ask() == "a:1"
    assert [each.to_model for each in chain.switches] == ["b:2", "a:1"]


async def test_who_is_not_there_when_the_work_begins_is_passed_over() -> None:
    chain = Chain(models=[Fake(name="a:1", missing=away()), Fake(name="b:2")])
    assert (await chain.model.prepare()).name == "b:2"
    assert chain.switches[0].message == "gone"
    with pytest.raises(ModelUnavailable) as caught:
        await Chain(models=[Fake(name=f"{n}:1", missing=away()) for n in "abc"]).model.prepare()
    assert [each["model"] for each in caught.value.details["causes"]] == ["a:1", "b:1", "c:1"]
    assert isinstance(caught.value.__cause__, ExceptionGroup)


async def test_a_missing_model_leaves_its_provider_to_others() -> None:
    chain = Chain(models=[Fake(name="a:1", missing=away(404)), Fake(name="a:2")])
    assert (await chain.model.prepare()).name == "a:2"
    chain = Chain(models=[Fake(name="a:1", missing=away(401)), Fake(name="a:2"), Fake(name="b:1")])
    assert (await chain.model.prepare()).name == "b:1"


async def test_failures_that_may_pass_are_given_two_more_requests() -> None:
    cut = ModelFailed("cut", details={"kind": "cut"}, retryable=True)
    first, second = Fake(name="a:1", outcomes=[cut] * 9), Fake(name="b:2")
    chain = Chain(models=[first, second])
    assert [await chain.ask() for _ in range(5)] == ["b:2"] * 5
    assert len(first.asked) == 3


async def test_an_answer_that_a_filter_cut_off_is_paid_for_and_the_next_one_asked() -> None:
    first, second = Fake(name="a:1", outcomes=[StopReason.FILTERED]), Fake(name="b:2")
    reply = await Chain(models=[first, second]).model.complete(ASKED)
    assert (reply.message.text, reply.usage.usd) == ("b:2", 0.5)  # the lost one by its hold
    first.outcomes = [StopReason.FILTERED]
    second.outcomes = [away()]
    reply = await Chain(models=[first, second]).model.complete(ASKED)
    assert (reply.stop, reply.usage.usd) == (StopReason.FILTERED, 0.5)
    first.outcomes, second.outcomes = [StopReason.FILTERED], [StopReason.FILTERED]
    reply = await Chain(models=[first, second]).model.complete(ASKED)
    assert (reply.message.text, reply.stop) == ("b:2", StopReason.FILTERED)


async def test_who_found_a_request_too_long_is_not_asked_as_much_again() -> None:
    too_long = ModelFailed("too long", details={"kind": "context_too_long"})
    first, second = Fake(name="a:1", outcomes=[too_long]), Fake(name="b:2")
    chain = Chain(models=[first, second])
    assert [await chain.ask(), await chain.ask()] == ["b:2", "b:2"]
    assert len(first.asked) == 1
    assert await chain.ask(ModelRequest(messages=(HELLO,), size=50)) == "a:1"


async def test_a_limit_of_ours_and_a_cancel_are_no_failures_of_a_model() -> None:
    first, second = Fake(name="a:1"), Fake(name="b:2")
    chain = Chain(models=[first, second])
    first.outcomes = [LimitReached("no money", limit_name="usd"), KeyboardInterrupt()]
    with pytest.raises(LimitReached):
        await chain.ask()
    with pytest.raises(KeyboardInterrupt):
        await chain.ask()
    assert await chain.ask() == "a:1"
    assert second.asked == []


async def test_half_open_lets_one_plan_try_and_the_others_pass_over() -> None:
    first, second = Fake(name="a:1", outcomes=[away()]), Fake(name="b:2")
    chain = Chain(models=[first, second])
    assert await chain.ask() == "b:2"
    chain.now = 6
    chain.circuits.begin("a:1")  # another plan's probe is under way
    assert await chain.ask() == "b:2"
    chain.circuits.let_go("a:1")
    assert await chain.ask() == "a:1"


async def test_where_all_rest_it_says_how_long() -> None:
    chain = Chain(models=[Fake(name="a:1", outcomes=[busy(20)]), Fake(name="b:2")])
    chain.models[1].outcomes = [busy(40)]
    with pytest.raises(ModelFailed):
        await chain.ask()
    with pytest.raises(ModelFailed) as caught:
        await chain.ask()
    assert caught.value.retryable
    assert caught.value.details["retry_after_s"] == 20
    await chain.model.close()
    assert all(each.is_closed for each in chain.models)


async def test_preparing_takes_no_probe_away_from_the_request_that_follows() -> None:
    first, second = Fake(name="a:1", outcomes=[away()]), Fake(name="b:2")
    chain = Chain(models=[first, second])
    assert await chain.ask() == "b:2"
    chain.now = 6
    other = FailingOverModel([Fake(name="a:1"), second], chain.circuits)
    assert (await other.prepare()).name == "a:1"
    assert (await other.complete(ASKED)).message.text == "a:1"


async def test_where_all_rest_a_phase_can_begin_all_the_same() -> None:
    first, second = Fake(name="a:1", outcomes=[busy(20)]), Fake(name="b:2", outcomes=[busy(40)])
    chain = Chain(models=[first, second])
    with pytest.raises(ModelFailed):
        await chain.ask()
    other = FailingOverModel([Fake(name="a:1"), Fake(name="b:2")], chain.circuits)
    assert (await other.prepare()).name == "a:1"
    with pytest.raises(ModelFailed) as caught:
        await other.complete(ASKED)
    assert caught.value.details["is_outage"]


async def test_a_refused_key_is_no_outage_for_the_next_model_of_its_provider() -> None:
    chain = Chain(models=[Fake(name="a:1", outcomes=[away(401)]), Fake(name="a:2")])
    with pytest.raises(ModelUnavailable) as caught:
        await chain.ask()
    assert caught.value.details["is_outage"] is False
    assert "a:2 failed before" in caught.value.message
