"""The end of a round of a role that writes nothing: what it said is read, checked and kept."""

from patchyard.contracts.actor import Turn
from patchyard.contracts.subjects import Subject
from patchyard.domain.changeset import Base
from patchyard.domain.design_record import DesignRecorded, read_record
from patchyard.domain.errors import ProofFailed
from patchyard.domain.inquiries import ANSWER_CHARS, AnswerGiven
from patchyard.domain.review import Reviewed, read_review
from patchyard.domain.role import Output, Unusable
from patchyard.engine.capture import rounds_of
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.rows import body_of

SUBJECT_CHARS = 60_000  # of a patch that is shown; the files themselves can be read


class Judging:
    """Keeps what came of one plan whose role judges or decides."""

    def __init__(
        self, equipment: Equipment, ledger: Ledger, base: Base, subject: Subject | None
    ) -> None:
        self._equipment = equipment
        self._ledger = ledger
        self._base = base
        self._subject = subject

    async def take(self, turn: Turn) -> str | None:
        """Keep what the turn says; return what is wrong with it, for the actor, or None.

        Raises ProofFailed when it was sent back as often as the plan allows.
        """
        try:
            output = self._ledger.state.known.charter.output
            if output == Output.RECORD:
                await self._record(turn)
            elif output == Output.ANSWER:
                await self._answer(turn)
            else:
                await self._review(turn)
        except Unusable as problem:
            return self._returned(str(problem))
        return None

    def _returned(self, problem: str) -> str:
        if self._ledger.state.rounds >= rounds_of(self._ledger.state.known):
            raise ProofFailed(
                f"what the {self._ledger.state.known.role} said cannot be used: {problem}",
                hint="take another model, or allow more rounds (--rounds)",
                details={"limit_name": "rounds"},
            )
        return f"This cannot be taken as it is: {problem}. Mend it, then finish again."

    async def _review(self, turn: Turn) -> None:
        rows = turn.product.get("findings")
        paths = [str(row.get("path") or "").removeprefix("./") for row in _rows(rows)]
        lines = await self._equipment.subjects.lines(self._base, sorted(set(paths)))
        review = read_review(turn.product, lines=lines)
        event = Reviewed(
            verdict=review.verdict,
            subject=self._subject.title if self._subject else "",
            findings=len(review.findings),
            body=body_of(review),
        )
        await self._ledger.record(event)

    async def _answer(self, turn: Turn) -> None:
        text = turn.summary
        if len(text) > ANSWER_CHARS:
            text = f"{text[:ANSWER_CHARS]}\n(cut: it had {len(text):,} characters)"
        await self._ledger.record(AnswerGiven(body=body_of(text)))

    async def _record(self, turn: Turn) -> None:
        record = read_record(turn.product)
        await self._ledger.record(DesignRecorded(title=record.title, body=body_of(record)))


def _rows(value: object) -> list[dict[str, object]]:
    rows = value if isinstance(value, list) else []
    return [row for row in rows if isinstance(row, dict)]


def shown_subject(subject: Subject | None) -> str:
    """Return a subject as an actor is shown it; empty where there is none."""
    if subject is None:
        return ""
    names = "\n".join(f"- {path}" for path in subject.paths[:200])
    patch = subject.patch
    if len(patch) > SUBJECT_CHARS:
        patch = f"{patch[:SUBJECT_CHARS]}\n(cut: {len(patch):,} characters; read the files)"
    coverage = f"\n\n{subject.coverage}" if subject.coverage else ""
    return f"{subject.title}\n\n{names}\n\n```diff\n{patch.rstrip()}\n```{coverage}"


__all__ = ["SUBJECT_CHARS", "Judging", "shown_subject"]
