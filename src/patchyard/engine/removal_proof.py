"""Whether added tests notice: the change they are about is taken away, and the proof run again."""

from collections.abc import Sequence

from patchyard.contracts.subjects import Subject
from patchyard.domain.anywhere import named_anywhere
from patchyard.domain.changeset import Base, Change, ChangeSet, ChangeStatus
from patchyard.domain.errors import ProofFailed, UsageError
from patchyard.domain.held import TESTS
from patchyard.domain.plan import PlanSpec
from patchyard.domain.removal import RemovalProven
from patchyard.domain.role import Output
from patchyard.engine.capture import rounds_of
from patchyard.engine.captured import known_changeset
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.proof import GateResult, Prover
from patchyard.engine.rows import body_of

NOTHING = (
    "there is no change that the tests could be about: nothing is uncommitted, and there is no "
    "commit before this one"
)

UNNOTICED = "there is no validation command, so that no test can be seen to fail"


class RemovalProof:
    """Proves the tests of one plan against the tree without their subject."""

    def __init__(
        self, equipment: Equipment, ledger: Ledger, prover: Prover, base: Base, subject: Subject
    ) -> None:
        self._equipment = equipment
        self._ledger = ledger
        self._prover = prover
        self._base = base
        self._subject = subject

    async def prove(self) -> str | None:
        """Run the proof without the subject; return what to tell the actor where it passes too.

        Raises ProofFailed when it was sent back as often as the plan allows.
        """
        changeset = await known_changeset(self._ledger)
        problem = _strays(changeset) or await self._unnoticed(changeset)
        if not problem:
            return None
        if self._ledger.state.rounds >= rounds_of(self._ledger.state.known):
            raise ProofFailed(
                problem,
                hint="`agents plan diff` shows the tests",
                details={"limit_name": "rounds"},
            )
        return f"{problem}. Mend that, then finish again."

    async def _unnoticed(self, changeset: ChangeSet) -> str:
        """Return why the tests prove nothing; empty where they notice."""
        commands = commands_of(self._ledger.state.known)
        whole = await self._prover.run(self._base, commands)
        red = next((result.command for result in whole if not result.passed), "")
        if red:
            return f"the proof fails with the change already ({red}): that is not mended by tests"
        bare = await self._prover.run(self._base, commands, tree=self._subject.before)
        tree = await self._equipment.subjects.without(self._base, self._subject, changeset)
        with_tests = await self._prover.run(self._base, commands, tree=tree)
        noticed = _noticed(bare, with_tests)
        title = self._subject.title
        results = body_of(with_tests)
        await self._ledger.record(
            RemovalProven(subject=title, tree=tree, noticed=noticed, results=results)
        )
        return "" if noticed else _problem(bare, with_tests)


def removal_proof(
    equipment: Equipment, ledger: Ledger, prover: Prover, base: Base, subject: Subject | None
) -> RemovalProof | None:
    """Return what proves added tests; None for a role that is not there to add them.

    Raises UsageError where nothing can be taken away, or nobody would notice.
    """
    spec = ledger.state.known
    if spec.charter.output != Output.TESTS:
        return None
    if subject is None:
        raise _without_subject()
    if not commands_of(spec):
        raise UsageError(UNNOTICED, hint="name one with --validate COMMAND")
    return RemovalProof(equipment, ledger, prover, base, subject)


async def require_subject(equipment: Equipment, spec: PlanSpec, base: Base) -> None:
    """Raise UsageError where a plan is to add tests and there is nothing they could be about."""
    if spec.charter.output != Output.TESTS:
        return
    if await equipment.subjects.subject(base, before=spec.subject) is None:
        raise _without_subject()


def _without_subject() -> UsageError:
    return UsageError(NOTHING, hint="commit the change or leave it in the checkout")


def commands_of(spec: PlanSpec) -> tuple[str, ...]:
    """Return the commands that can notice a missing change: validation, and gates that test."""
    return (
        *spec.validate,
        *(gate.command for gate in spec.gates if gate.is_tests and gate.command),
    )


def _strays(changeset: ChangeSet) -> str:
    """Return what is wrong where something else than tests was changed, or a test taken away."""
    fits = named_anywhere(TESTS)
    paths = {path for each in changeset.changes for path in (each.path, each.old_path) if path}
    others = sorted(path for path in paths if not fits.match(path))
    if others:
        return f"a tester changes tests only, and {', '.join(others[:5])} is none"
    gone = sorted(each.old_path or each.path for each in changeset.changes if _is_gone(each))
    return f"a tester takes no test away, and {', '.join(gone[:5])} is gone" if gone else ""


def _is_gone(change: Change) -> bool:
    return change.status in {ChangeStatus.DELETED, ChangeStatus.RENAMED}


def _noticed(bare: Sequence[GateResult], with_tests: Sequence[GateResult]) -> tuple[str, ...]:
    """Return the commands that pass without the change and fail there with the tests."""
    passed = {result.command for result in bare if result.passed}
    return tuple(
        result.command
        for result in with_tests
        if result.command in passed and not result.passed and result.exit_code is not None
    )


def _problem(bare: Sequence[GateResult], with_tests: Sequence[GateResult]) -> str:
    red = [result.command for result in bare if not result.passed]
    if red and all(not result.passed for result in with_tests):
        return (
            f"without the change the proof fails before any test is added ({red[0]}), so that"
            " it cannot be seen whether the new tests notice"
        )
    return "the tests pass without the change they are about too, so that they prove nothing"


__all__ = [
    "NOTHING",
    "UNNOTICED",
    "RemovalProof",
    "commands_of",
    "removal_proof",
    "require_subject",
]
