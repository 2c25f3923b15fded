"""The actor that asks a model: one conversation a phase, rebuilt from the journal when need be."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from patchyard.actors.compaction import compact
from patchyard.actors.conversation import Conversation, entry, spoken
from patchyard.actors.finishing import FINISH, Finish, finish_spec, read_finish, strategy
from patchyard.actors.patience import Patience, nudge, silence
from patchyard.actors.prompting import ROOM, opening
from patchyard.actors.reading import ReadCall, clipped, from_body, read, to_body
from patchyard.actors.repetition import Verdict
from patchyard.actors.results import answer_entry, label, looks_like_change, signature
from patchyard.contracts.actor import Answered, Brief, Turn, Wanted
from patchyard.contracts.model import Model, OnText
from patchyard.domain.codec import to_json
from patchyard.domain.errors import ModelFailed
from patchyard.domain.messages import (
    Image,
    Message,
    ModelFacts,
    ModelReply,
    ModelRequest,
    Speaker,
    StopReason,
    Usage,
)
from patchyard.domain.role import WRITING, Output
from patchyard.domain.tooling import Effect, ToolSpec

BYTES_PER_TOKEN = 3  # code has more in most tokenizers
BACKGROUND_SHARE = 8  # of the room: what the repository is like may take one part
LEAST_BYTES = 4_000  # no conversation is possible in less
SAMPLED = "sampling"  # purpose of requests that a server makes
TOO_LONG = "context_too_long"  # the kind of a failure, as models name it
NOTHING_CHANGED = (
    "You have changed nothing yet. If the task needs no change, call finish again and say why; "
    "else do the work first."
)
ACCEPTED = "accepted"
NOT_YET = "not finished: look at what came of the other calls first, then call finish again."
SENT_BACK = {
    NOTHING_CHANGED: "the model finished without a change: asked back once",
    NOT_YET: "the model finished before it had heard of its other calls: sent back",
}
MISREAD = 2  # times that an assessment no one can read is sent back; then it says nothing
UNCALLED = "the model called nothing: asked to go on"
NOWHERE = (
    "This leads nowhere ({reason}). Do something else: look at another place, try another way, or "
    "call finish with failed=true and say what is in the way."
)
TAKEN_UP = (
    "The work was stopped here ({reason}) and is taken up again. Go on with the task: every answer "
    "calls a tool, the last one finish."
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Bounds of one conversation."""

    request_bytes: int = 200_000  # of messages and tools, a request
    output_tokens: int = 16_384  # of one answer
    temperature: float | None = None


@dataclass(frozen=True, kw_only=True)
class ModelActor:
    """Carries out a brief by asking a model and making the calls it wants."""

    model: Model
    settings: Settings = field(default_factory=Settings)
    on_text: OnText | None = None

    async def begin(self, brief: Brief) -> "ModelSession":
        """Look the model up and open the conversation. Raises ModelUnavailable."""
        facts = await self.model.prepare()
        return ModelSession(self, brief, facts)


class ModelSession:
    """One conversation. Everything but the asking is a pure function of what came in."""

    def __init__(self, actor: ModelActor, brief: Brief, facts: ModelFacts) -> None:
        self._actor = actor
        self._brief = brief
        self._facts = facts
        self._tools = (*_offered(brief), finish_spec(brief.phase, brief.output))
        self._names = [tool.name for tool in self._tools]
        self._effects = {tool.name: tool.effect for tool in self._tools}
        self._room = _budget(actor.settings, facts, self._tools)  # as is known of the model now
        first = opening(brief, room=min(ROOM, self._room // BACKGROUND_SHARE))
        self._talk = Conversation(entry(m, is_pinned=True) for m in first)
        self._budget = self._room  # of the step at hand; an earlier one may have had another
        self._shrunk: list[int] = []  # budgets that the provider made necessary in this step
        self._open: list[_Open] = []
        self._held: Finish | None = None
        self._patience = Patience()
        self._told: list[str] = []  # what the model is told before its next reply
        self._noted = (-1, "")
        self._changed = False
        self._asked_back = False
        self._misread = 0  # assessments of the task that were sent back
        self._ended = ""  # why the turn before was the last, where it failed
        self._sent_back = ""  # why the model was set right since the last turn, for people
        self._turn = 0
        self._lent = 0

    async def next(self, answers: Sequence[Answered], *, note: str = "") -> Turn:
        """Take in the results, then ask the model. Raises ModelFailed, ModelUnavailable."""
        began = self._budget = self._room
        self._shrunk = []
        early = self._take_in(answers, note)
        if early is not None:
            return self._remembered(early)
        reply = clipped(await self._ask())
        body = {"reply": to_body(reply), "asked": self._talk.fingerprint, "budget": began}
        turn = self._read(reply, usage=reply.usage, body={**body, "shrunk": self._shrunk})
        return self._remembered(turn)

    async def restore(self, turn: Turn, answers: Sequence[Answered], *, note: str = "") -> None:
        """Take in an earlier step; the reply comes from `turn.body`."""
        if "budget" in turn.body:
            self._budget = int(turn.body["budget"])
        again = self._take_in(answers, note)
        for budget in turn.body.get("shrunk", ()):
            self._talk.make_room(int(budget), compact)
        if again is None and "reply" in turn.body:
            again = self._read(from_body(turn.body["reply"]), usage=turn.usage, body=turn.body)
        if again is not None:
            self._remembered(again)

    async def lend(self, messages: Sequence[Message], *, max_tokens: int) -> ModelReply:
        """See contracts.actor.Lending."""
        request = ModelRequest(
            messages=tuple(messages),
            purpose=SAMPLED,
            turn=self._lent,
            size=sum(len(each.text.encode("utf-8", "surrogatepass")) for each in messages),
            max_output_tokens=max_tokens,
            temperature=self._actor.settings.temperature,
        )
        self._lent += 1
        return await self._actor.model.complete(request)

    async def close(self) -> None:
        """The model belongs to whoever made it; there is nothing else to free."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as the next request would send it."""
        return self._talk.messages

    async def _ask(self) -> ModelReply:
        """Ask; where the provider says that it is too much, ask again with half of it."""
        while True:
            try:
                return await self._request()
            except ModelFailed as error:
                if error.details.get("kind") != TOO_LONG or not self._shrink():
                    raise

    def _shrink(self) -> bool:
        """Make the conversation smaller; return whether that could be done."""
        before, half = self._talk.size, self._talk.size // 2
        if half < LEAST_BYTES:
            return False
        self._talk.make_room(half, compact)
        self._room = self._budget = half
        self._shrunk.append(half)
        return self._talk.size < before

    async def _request(self) -> ModelReply:
        if self._talk.size > self._budget:
            raise ModelFailed(
                f"the task and its last step take {self._talk.size:,} bytes, more than the "
                f"{self._budget:,} that fit a request to {self._facts.name}",
                hint="shorten the task or take a model with a larger context window",
            )
        request = ModelRequest(
            messages=self.messages,
            tools=self._tools,
            purpose=self._brief.phase,
            turn=self._turn,
            size=self._talk.size,
            max_output_tokens=_output_tokens(self._actor.settings, self._facts),
            temperature=self._actor.settings.temperature,
        )
        return await self._actor.model.complete(request, on_text=self._actor.on_text)

    def _remembered(self, turn: Turn) -> Turn:
        self._ended = turn.failure if turn.is_final else ""
        sent_back, self._sent_back = self._sent_back, ""
        return replace(turn, sent_back=sent_back) if sent_back != turn.sent_back else turn

    def _take_in(self, answers: Sequence[Answered], note: str) -> Turn | None:
        """Put the results into the conversation; return a turn if the model need not be asked."""
        ending = self._settle({answer.ref: answer for answer in answers}, note)
        if ending is not None:
            return ending
        if note and self._noted != (self._turn, note):
            self._noted = (self._turn, note)
            self._patience.renew()
            self._told.append(note)
        if self._ended:
            self._patience.renew()
            self._told.append(TAKEN_UP.format(reason=self._ended))
        verdict, reason = self._patience.verdict()
        if verdict is Verdict.WARN:
            self._told.append(NOWHERE.format(reason=reason))
        if self._told:
            self._talk.add(entry(Message(speaker=Speaker.USER, text="\n\n".join(self._told))))
        self._told = []
        if verdict is Verdict.END:
            return _failed(f"the model made no progress: {reason}", body={"ended": reason})
        self._talk.make_room(self._budget, compact)
        return None

    def _settle(self, by_ref: Mapping[str, Answered], note: str) -> Turn | None:
        """Answer every open call in order; return the final turn of a finish held back for them."""
        items = [item.heard(by_ref.get(item.call.ref)) for item in self._open]
        self._open = []
        failed = False
        for item in items:
            if item.call.name != FINISH:
                failed = not self._progress(item, by_ref.get(item.call.ref)) or failed
        held, self._held = self._held, None
        verdict = "" if held is None else self._verdict(held, failed=failed, is_noted=bool(note))
        for item in items:
            local = verdict if held is not None and item.is_finish else item.answer
            answer = by_ref.get(item.call.ref)
            images = () if local else self._seen(answer)
            limit = self._budget // 2
            said = answer_entry(item.call, answer, local=local, limit=limit, images=images)
            self._talk.add(said)
        if held is not None and verdict == ACCEPTED:
            return _final(held, body={"held": True})
        return None

    def _progress(self, item: "_Open", answer: Answered | None) -> bool:
        """Note what a call came to; return whether it went well."""
        call = item.call
        came_to = signature(call, answer, local=item.answer)
        self._patience.repetition.observe(partial(label, call), came_to)
        is_use = answer is not None and (answer.result.success or bool(self._seen(answer)))
        went_well = is_use and not call.problem
        self._patience.heard_result(is_success=went_well)
        if not went_well:
            return False
        effect = self._effects.get(call.name, Effect.READ)
        self._changed = self._changed or looks_like_change(call, effect)
        return True

    def _seen(self, answer: Answered | None) -> tuple[Image, ...]:
        """Return the pictures of a result, none for a model that cannot see."""
        return answer.images if answer is not None and self._facts.has_images else ()

    def _verdict(self, finish: Finish, *, failed: bool = False, is_noted: bool = False) -> str:
        """Return what a finish call is answered with; an idle one is asked back once."""
        is_writing = self._brief.phase == "execute" and self._brief.output in WRITING
        idle = is_writing and not self._changed and not finish.is_failure
        verdict = ACCEPTED
        if failed or is_noted:
            verdict = NOT_YET
        elif idle and not self._asked_back:
            self._asked_back = True
            verdict = NOTHING_CHANGED
        elif finish.problem and self._misread < MISREAD:
            self._misread += 1
            verdict = f"failed (VALIDATION_ERROR): {finish.problem}"
        self._sent_back = SENT_BACK.get(verdict, finish.problem if verdict != ACCEPTED else "")
        return verdict

    def _read(self, reply: ModelReply, *, usage: Usage | None, body: Mapping[str, Any]) -> Turn:
        """Take the reply into the conversation and say what it comes to."""
        reading = read(reply, names=self._names, turn=self._turn)
        self._turn += 1
        self._talk.add(spoken(reading.message))
        said = {
            "text": reading.message.text,
            "usage": usage,
            "usd": usage.usd if usage else None,
            "model": reply.model,
            "body": body,
        }
        self._open = [_Open.of(call) for call in reading.calls]
        if reply.stop is StopReason.FILTERED:
            return _failed("the provider's content filter stopped the answer", **said)
        if not reading.calls:
            return self._without_calls(reply, said)
        if not self._patience.heard_calls(is_any_fit=any(not c.problem for c in reading.calls)):
            problem = reading.calls[0].problem
            return _failed(f"the model's calls could not be carried out: {problem}", **said)
        return self._with_calls(reading.calls, said)

    def _with_calls(self, calls: Sequence[ReadCall], said: Mapping[str, Any]) -> Turn:
        others = [call for call in calls if call.name != FINISH]
        finishing = [item for item in self._open if item.is_finish]
        if finishing:
            heard = finishing[-1].call.arguments or {}
            finish = read_finish(self._brief.phase, heard, self._brief.output)
            if others:
                self._held = finish
            else:
                verdict = self._verdict(finish)
                self._open = [replace(item, answer=verdict) for item in self._open]
                if verdict == ACCEPTED:
                    return _final(finish, **said)
        return Turn(
            calls=tuple(
                Wanted(ref=c.ref, name=c.name, arguments=c.arguments, problem=c.problem)
                for c in others
            ),
            **said,
        )

    def _without_calls(self, reply: ModelReply, said: Mapping[str, Any]) -> Turn:
        if self._patience.heard_none():
            self._told.append(nudge(reply))
            self._sent_back = UNCALLED
            return Turn(**said)
        text = reply.message.text.strip()
        if text and reply.stop is StopReason.DONE:
            if self._brief.phase == "strategize":
                return _final(strategy(text), **said)
            is_done = self._changed and self._brief.output in WRITING
            if is_done or self._brief.output == Output.ANSWER:
                return _final(Finish(summary=text), **said)
        return _failed(silence(reply), **said)


@dataclass(frozen=True, kw_only=True)
class _Open:
    """A call whose answer is not in the conversation yet."""

    call: ReadCall
    answer: str = ""  # ours, when no tool is asked

    @classmethod
    def of(cls, call: ReadCall) -> "_Open":
        return cls(
            call=call,
            answer=f"failed (VALIDATION_ERROR): {call.problem}" if call.problem else "",
        )

    def heard(self, answer: Answered | None) -> "_Open":
        """Leave the word to the engine where it refused a tool that only planning is not given."""
        is_refused = answer is not None and answer.result.error == "READ_ONLY"
        return replace(self, answer="") if is_refused and self.answer else self

    @property
    def is_finish(self) -> bool:
        return self.call.name == FINISH and not self.call.problem


def _offered(brief: Brief) -> tuple[ToolSpec, ...]:
    if brief.phase != "strategize":
        return brief.tools
    return tuple(tool for tool in brief.tools if tool.effect is not Effect.WRITE)


def _budget(settings: Settings, facts: ModelFacts, tools: Sequence[ToolSpec]) -> int:
    """Return how many bytes the messages of a request may take beside the tools."""
    allowed = settings.request_bytes
    if facts.context_tokens is not None:
        window = facts.context_tokens - (_output_tokens(settings, facts) or 0)
        allowed = min(allowed, window * BYTES_PER_TOKEN)
    taken = sum(len(json.dumps(to_json(tool))) for tool in tools)
    return max(LEAST_BYTES, allowed - taken)


def _output_tokens(settings: Settings, facts: ModelFacts) -> int | None:
    if facts.context_tokens is None:
        return settings.output_tokens
    return min(settings.output_tokens, facts.context_tokens // 4)


def _final(finish: Finish, **said: Any) -> Turn:
    failure = finish.summary if finish.is_failure else ""
    return Turn(
        is_final=True,
        summary=finish.summary,
        failure=failure,
        can_go_on=finish.is_failure,
        proposals=finish.proposals,
        assessment=finish.assessment,
        product=finish.product,
        **said,
    )


def _failed(reason: str, **said: Any) -> Turn:
    return Turn(is_final=True, failure=reason, can_go_on=True, **said)


__all__ = ["ModelActor", "ModelSession", "Settings"]
