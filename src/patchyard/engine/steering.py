"""What the owner of a plan hears from others, and asks of them, while it carries the plan on."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from patchyard.contracts.actor import Wanted
from patchyard.contracts.approver import Answering, Approver, Nobody, Reply
from patchyard.contracts.tool import Tool
from patchyard.domain.automation import automation
from patchyard.domain.budget import PlanLimits
from patchyard.domain.codec import from_text
from patchyard.domain.elicitation import Question
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import ApprovalNeeded, PlanPaused, WorkerLeft
from patchyard.domain.events import LimitsChanged
from patchyard.domain.meanings import restored
from patchyard.domain.plan import Phase
from patchyard.domain.safety import asking, refusal
from patchyard.domain.steering import (
    ApprovalAsked,
    ApprovalUsed,
    Approved,
    Guided,
    Paused,
    PauseEnded,
    Rejected,
    Subject,
    shown_text,
)
from patchyard.engine import control
from patchyard.engine.enduring import Enduring
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger

LOOK_S = 0.02  # between two looks for words, while steps take less than that
NOT_ALLOWED = "NOT_ALLOWED"
REJECTED = "REJECTED"


@dataclass(frozen=True, kw_only=True)
class Permit:
    """Whether a call may be made."""

    code: str = ""  # of the refusal; empty: it may
    message: str = ""
    used: tuple[ApprovalUsed, ...] = ()  # journalled together with the call's intent


class Steering:
    """One owner's ear and voice. `step` is called between two steps of the work."""

    def __init__(
        self,
        equipment: Equipment,
        ledger: Ledger,
        *,
        approver: Approver | None = None,
        leaving: asyncio.Event | None = None,
        after: float = float("inf"),
    ) -> None:
        """Take who is asked, and how many words were said before: pauses of then are over."""
        self._journal = equipment.store.journal
        self._clock = equipment.clock
        self._ledger = ledger
        self._approver = approver or Nobody()
        self._leaving = leaving or asyncio.Event()
        self._after = after
        self._looked = float("-inf")
        self._endures = Enduring()
        self._pausing = asyncio.Event()
        self.awake = asyncio.Event()  # somebody pauses this plan, or the one that it looks at
        self._listen: Callable[[], Awaitable[None]] | None = None

    def follow(self, elder: "Steering", listen: Callable[[], Awaitable[None]]) -> None:
        """Call `listen` in each step, and wait no longer once `elder` is to pause."""
        self._listen = listen
        self.awake = elder.awake

    def _pause(self) -> None:
        self._pausing.set()
        self.awake.set()

    def hear(self, word: control.Word) -> None:
        """Note that something was said; it takes effect at the next step."""
        self._looked = float("-inf")
        if word.word == control.PAUSE:
            self._pause()

    async def step(self) -> None:
        """Take in what was said, during the call before too. Raises PlanPaused: it is held then.

        Raises WorkerLeft where the next worker goes on.
        """
        if self._listen is not None:
            await self._listen()
        if self._clock.monotonic() - self._looked >= LOOK_S:
            await self.take_in()
        if self._pausing.is_set():
            await self._ledger.record(Paused(reason="plan pause"))
            raise paused(self._ledger.plan_id)
        if self._leaving.is_set():
            raise WorkerLeft

    async def take_in(self) -> None:
        """Journal the guidance and the limits that this plan was given, each word once."""
        self._looked = self._clock.monotonic()
        heard = self._ledger.state.steered.heard
        for word in await control.read(self._journal, self._ledger.plan_id, after=heard):
            if word.word == control.PAUSE and word.number > self._after:
                self._pause()
            if word.word == control.LIMIT:
                limits = None
                with self._endures.passing(f"word {word.number} to plan {self._ledger.plan_id}"):
                    limits = limits_of(word)
                if limits is not None:
                    await self._ledger.record(LimitsChanged(limits=limits, word=word.number))
            if word.word == control.PROMPT:
                await self._ledger.record(
                    Guided(
                        guidance_id=word.word_id,
                        text=word.text,
                        source=word.source,
                        word=word.number,
                    )
                )

    async def wait(self, seconds: float) -> None:
        """Wait, but not once the plan is to pause. Raises PlanPaused."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.awake.wait()
        await self.step()

    async def consult(self, question: Question) -> Reply | None:
        """Put a server's question to whoever is there; None: nobody is."""
        approver = self._approver
        return await approver.answer(question) if isinstance(approver, Answering) else None

    async def answer_open(self) -> None:
        """Put the question that a plan was stopped by once more. Raises ApprovalNeeded."""
        asked = self._ledger.state.steered.asked
        if asked is not None:
            await self._put(asked)

    async def permit(
        self,
        wanted: Wanted,
        tool: Tool,
        kind: ExecutionEnvironment,
        *,
        turn: int,
        has_checkpoints: bool = True,
    ) -> Permit:
        """Say whether a call may be made. Raises ApprovalNeeded where nobody can be asked."""
        spec = self._ledger.state.known
        name, effect = tool.spec.name, tool.spec.effect
        refused = refusal(spec.safety, name, effect, kind, has_checkpoints=has_checkpoints)
        if refused is not None:
            return Permit(code=NOT_ALLOWED, message=refused)
        setting = asking(spec.approvals, name, effect)
        why = f"approvals: {setting}" if setting else ""
        if not why and effect in automation(spec.automation_profile).calls:
            why = f"profile {spec.automation_profile}"
        if not why or self._ledger.state.phase != Phase.EXECUTE:
            return Permit()
        starts = self._ledger.state.attempt_starts
        digest = digest_of([starts, turn, wanted.ref, name, wanted.arguments])
        shown = f"{name} in {kind}: {_text(wanted.arguments)}"
        verdict = await self.decided(Subject.CALL, name, digest, shown=shown_text(shown), why=why)
        used = (ApprovalUsed(digest=digest),)
        if isinstance(verdict, Approved):
            return Permit(used=used)
        said = f": {verdict.reason}" if verdict.reason else ""
        message = f"a person refused this call{said}. Do it another way, or finish without it."
        return Permit(code=REJECTED, message=message, used=used)

    async def decided(
        self, subject: Subject, name: str, digest: str, *, shown: str, why: str
    ) -> Approved | Rejected:
        """Return the verdict on exactly this, asked for now when there is none.

        Raises ApprovalNeeded where nobody can be asked; the question stays open then.
        """
        steered = self._ledger.state.steered
        known = steered.verdicts.get(digest)
        if known is not None:
            return known
        asked = steered.asked
        if asked is None or asked.digest != digest:
            asked = ApprovalAsked(
                approval_id=self._clock.new_id(),
                subject=subject,
                name=name,
                digest=digest,
                shown=shown,
                why=why,
            )
            await self._ledger.record(asked)
        return await self._put(asked)

    async def _put(self, asked: ApprovalAsked) -> Approved | Rejected:
        profile = automation(self._ledger.state.known.automation_profile)
        said = await self._approver.ask(asked) if profile.is_asking else None
        if said is None:
            raise needed(self._ledger.plan_id, asked)
        verdict: Approved | Rejected = Approved(
            approval_id=asked.approval_id, digest=asked.digest, by=said.by
        )
        if not said.is_approved:
            verdict = Rejected(
                approval_id=asked.approval_id,
                digest=asked.digest,
                by=said.by,
                reason=said.reason,
            )
        await self._ledger.record(verdict)
        return verdict


async def leave_pause(ledger: Ledger, *, is_allowed: bool) -> None:
    """Take a paused plan out of its pause. Raises PlanPaused where that is not allowed."""
    if ledger.state.steered.paused is None:
        return
    if not is_allowed:
        raise paused(ledger.plan_id)
    await ledger.record(PauseEnded())


def paused(plan_id: str) -> PlanPaused:
    """Return the error that ends the work on a paused plan."""
    return PlanPaused(
        f"plan {plan_id} is paused", hint=f"`agents plan resume {plan_id}` carries it on"
    )


def needed(plan_id: str, asked: ApprovalAsked) -> ApprovalNeeded:
    """Return the error of a question that nobody is there to answer."""
    return ApprovalNeeded(
        f"{asked.name} waits for approval ({asked.why})",
        hint=f"`agents plan approve {plan_id}` and `agents plan resume {plan_id}` go on;"
        f" `agents plan reject {plan_id} REASON` says no",
        details={
            "approval_id": asked.approval_id,
            "subject": str(asked.subject),
            "name": asked.name,
            "digest": asked.digest,
            "shown": asked.shown,
        },
    )


def limits_of(word: control.Word) -> PlanLimits:
    """Return the limits that a word to the owner says. Raises JournalBroken for no limits."""
    return restored(PlanLimits, from_text(word.text, "word {} to the plan", word.number))


def digest_of(facts: Any) -> str:
    """Return the hash that an approval is bound to."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _text(arguments: Mapping[str, Any] | None) -> str:
    return json.dumps(arguments or {}, ensure_ascii=False)


__all__ = [
    "LOOK_S",
    "NOT_ALLOWED",
    "REJECTED",
    "Permit",
    "Steering",
    "digest_of",
    "leave_pause",
    "limits_of",
    "needed",
    "paused",
]
