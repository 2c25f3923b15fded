"""Hand-over: the stored change set goes to the user's repository, and can be taken back."""

from collections.abc import Sequence
from dataclasses import replace

from patchyard.contracts.handover import Order, Receipt
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.commit_message import commit_message
from patchyard.domain.errors import GuardRefused, PatchyardError, StateRefusal
from patchyard.domain.events import Applied, ApplyIntended, Moved, Unapplied
from patchyard.domain.names import chosen_paths
from patchyard.domain.plan import Phase, State
from patchyard.domain.usage import usage_data
from patchyard.engine.answers import whole
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import failure_of, require_result
from patchyard.engine.packing import packed_body


class Handing:
    """Applies and unapplies the change set of one owned plan."""

    def __init__(self, equipment: Equipment, ledger: Ledger) -> None:
        self._equipment = equipment
        self._ledger = ledger

    async def hand_over(self) -> None:
        """Finish an apply that was cut short, then apply where the plan says so."""
        await self.finish()
        state = self._ledger.state
        if state.applied is not None:
            return
        if state.known.apply_to != "none":
            await self.apply(state.known.apply_to)
        elif (state.phase, state.state) == (Phase.APPLY, State.ERRORED) and state.failure:
            to = state.failure.details.get("to")
            again = f"agents plan apply {state.plan_id}" + (f" --to {to}" if to else "")
            raise GuardRefused(
                f"the apply failed, and nothing was changed: {state.failure.message}",
                hint=f"`{again}` tries again",
            )

    async def apply(
        self, to: str, *, paths: Sequence[str] = (), allow_paths: Sequence[str] = (), name: str = ""
    ) -> Receipt | None:
        """Hand over and return the receipt; None when there is nothing to hand over.

        `paths` are files and folders from the top of the repository on; none are all of it.
        All or nothing: on Conflict and StateRefusal neither the repository nor the plan changed.
        Applying a second time is harmless: a branch or patch that is gone is made again, and one
        that cannot be read is a StateRefusal. An apply that was cut short is finished.
        """
        state = self._ledger.state
        require_result(state)
        base, changeset = await self.changeset()
        if changeset.is_empty:
            return None
        done = await self._earlier(to, name)
        if done is not None:
            await self._have_there(base, changeset, done)
            return done
        order = Order(
            to=to,
            name=name or _name(to, base, state.plan_id),
            message=commit_message(state.known.task, state.summary),
            paths=chosen_paths(paths),
            allow_paths=(*state.known.allow_paths, *allow_paths),
        )
        return await self._carry_out(base, changeset, order)

    async def _earlier(self, to: str, name: str) -> Receipt | None:
        """Return the receipt of the same hand-over, when it was done before."""
        for each in self._ledger.state.handed:
            if each.to == to and not each.is_partial:
                receipt = await self._ledger.loaded(each.record, Receipt)
                if not name or receipt.reference in {None, name}:
                    return receipt
        return None

    async def _have_there(self, base: Base, changeset: ChangeSet, receipt: Receipt) -> None:
        """Look whether an earlier hand-over is really there, and make it again where it is not."""
        handover = self._equipment.handover
        if await handover.is_there(base, receipt):
            return
        async with handover.turn(base):
            if not await handover.is_there(base, receipt):
                order = Order(to=receipt.to, name=receipt.reference or "", message="")
                intent = replace(receipt, is_done=False)
                await whole(handover.carry_out(base, changeset, order, intent))

    async def looked_after(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return which hand-overs cannot be read, and which are not there; a sentence each.

        What is not there may have been deleted on purpose; what cannot be read was damaged.
        """
        damaged: list[str] = []
        gone: list[str] = []
        base = self._ledger.state.base
        for each in self._ledger.state.handed:
            receipt = await self._ledger.loaded(each.record, Receipt)
            try:
                if base is None or await self._equipment.handover.is_there(base, receipt):
                    continue
                again = f"`agents plan apply {self._ledger.plan_id} --to {each.to}`"
                gone.append(f"{each.to} {receipt.reference} is gone; {again} makes it again")
            except StateRefusal as error:
                damaged.append(f"{error.message}; {error.hint}")
        return damaged, gone

    async def finish(self) -> None:
        """Finish an apply that was cut short, as it was ordered; nothing without one."""
        known = self._ledger.state.intended
        if known is None:
            return
        base, changeset = await self.changeset()
        order = Order(to=known.to, name=known.name, message="", paths=known.paths)
        await self._carry_out(base, changeset, order)

    async def _carry_out(self, base: Base, changeset: ChangeSet, order: Order) -> Receipt:
        async with self._equipment.handover.turn(base):
            intent = await self._intent(base, changeset, order)
            await self._processing()
            async with self._ledger.sole():
                return await whole(self._written(base, changeset, order, intent))

    async def _written(
        self, base: Base, changeset: ChangeSet, order: Order, intent: Receipt
    ) -> Receipt:
        """Write and journal it; a cancel in the middle waits for that."""
        try:
            receipt = await self._equipment.handover.carry_out(base, changeset, order, intent)
        except PatchyardError as error:
            await self._failed(error)
            raise
        usage = usage_data(self._ledger.state.used.total)
        receipt = replace(receipt, journal_head=await self._ledger.head(), usage=usage)
        await self._done(receipt, changeset, is_partial=bool(order.paths))
        return receipt

    async def _intent(self, base: Base, changeset: ChangeSet, order: Order) -> Receipt:
        """Return the intent of this order, the one that is on disk already if it was cut short."""
        known = self._ledger.state.intended
        if known is not None:
            if (known.to, known.name or order.name, known.paths) != (
                order.to, order.name, order.paths
            ):  # fmt: skip
                raise GuardRefused(
                    f"an apply to {known.to} was begun and cut short",
                    hint=f"finish it first: `agents plan resume {self._ledger.plan_id}`, or take"
                    f" it back: `agents plan unapply {self._ledger.plan_id}`",
                )
            return await self._ledger.loaded(known.record, Receipt)
        intent = await self._equipment.handover.plan(base, changeset, order)
        await self._ledger.record(
            ApplyIntended(
                to=order.to,
                changeset_id=changeset.id,
                record=packed_body(intent),
                name=order.name,
                paths=order.paths,
            )
        )
        return intent

    async def _failed(self, error: PatchyardError) -> None:
        """Let go of the intent unless a part is in: the next apply looks at all anew."""
        state = self._ledger.state
        to = {"to": state.intended.to} if state.intended is not None else {}
        failed = failure_of(Phase.APPLY, error)
        failed = replace(failed, details={**failed.details, **to})
        errored = Moved(phase=Phase.APPLY, state=State.ERRORED, reason=error.message[:500])
        await self._ledger.record(failed, *([errored] if state.state == State.PROCESSING else []))

    async def _processing(self) -> None:
        here = (self._ledger.state.phase, self._ledger.state.state)
        if here == (Phase.EXECUTE, State.COMPLETE):
            await self._ledger.record(Moved(phase=Phase.APPLY, state=State.QUEUED))
            here = (Phase.APPLY, State.QUEUED)
        if here[1] in {State.ERRORED, State.CONSTRAINED}:
            await self._ledger.record(Moved(phase=Phase.APPLY, state=State.QUEUED))
            here = (Phase.APPLY, State.QUEUED)
        if here == (Phase.APPLY, State.QUEUED):
            await self._ledger.record(Moved(phase=Phase.APPLY, state=State.PROCESSING))

    async def _done(self, receipt: Receipt, changeset: ChangeSet, *, is_partial: bool) -> None:
        applied = Applied(
            to=receipt.to,
            changeset_id=changeset.id,
            record=packed_body(receipt),
            is_partial=is_partial,
        )
        step = (Phase.EXECUTE, State.COMPLETE) if is_partial else (Phase.APPLY, State.APPLIED)
        is_moving = self._ledger.state.state == State.PROCESSING
        moved = [Moved(phase=step[0], state=step[1])] if is_moving else []
        await self._ledger.record(applied, *moved)  # in one step: what is applied is not resumed

    async def unapply(self) -> Sequence[str]:
        """Take the last hand-over back and return the paths. Raises Conflict or GuardRefused.

        One that was cut short is taken back but for newer work: StateRefusal then names it.
        """
        known = self._ledger.state.intended
        if known is not None:
            base, changeset = await self.changeset()
            async with self._equipment.handover.turn(base), self._ledger.sole():
                return await whole(self._begun_taken_back(base, changeset, known))
        applied = self._ledger.state.applied
        if applied is None:
            raise GuardRefused(
                "nothing of this plan is applied",
                hint=f"`agents plan apply {self._ledger.plan_id}` applies it",
            )
        base, changeset = await self.changeset()
        receipt = await self._ledger.loaded(applied.record, Receipt)
        async with self._equipment.handover.turn(base), self._ledger.sole():
            return await whole(self._taken_back(base, changeset, receipt))

    async def _taken_back(
        self, base: Base, changeset: ChangeSet, receipt: Receipt
    ) -> Sequence[str]:
        """Take it back and journal it; a cancel in the middle waits for that."""
        paths = await self._equipment.handover.take_back(base, changeset, receipt)
        await self._ledger.record(Unapplied(changeset_id=changeset.id))
        return paths

    async def _begun_taken_back(
        self, base: Base, changeset: ChangeSet, known: ApplyIntended
    ) -> Sequence[str]:
        """Take back what is in of a hand-over cut short; the plan stands before it then."""
        intent = await self._ledger.loaded(known.record, Receipt)
        paths = await self._equipment.handover.take_back(base, changeset, intent)
        here = self._ledger.state.state
        moves = [Moved(phase=Phase.APPLY, state=State.QUEUED)] if here == State.ERRORED else []
        if here in {State.ERRORED, State.PROCESSING, State.QUEUED}:
            moves.append(Moved(phase=Phase.EXECUTE, state=State.COMPLETE))
        await self._ledger.record(Unapplied(changeset_id=changeset.id, is_begun=True), *moves)
        left = sorted(set(intent.touched) - set(paths))
        if left:
            raise StateRefusal(
                f"taken back, but for newer work, which was left as it is: {', '.join(left[:8])}",
                hint="look at it with `git diff`: part of the change may be in it",
                details={"paths": left},
            )
        return paths

    async def changeset(self) -> tuple[Base, ChangeSet]:
        """Return the plan's base and stored change set. Raises GuardRefused when there is none."""
        state = self._ledger.state
        if state.base is None or state.changeset is None:
            raise GuardRefused(
                f"plan {state.plan_id} has no change set yet",
                hint=f"it is at {state.phase}/{state.state}; execute makes one",
            )
        return state.base, await self._ledger.loaded(state.changeset.body, ChangeSet)


def _name(to: str, base: Base, plan_id: str) -> str:
    """The branch, or the file of a patch, of a plan that was given no name for it."""
    if to == "patch":
        return f"{base.repository}/{plan_id}.patch"
    return f"patchyard/{plan_id.lower()}"


__all__ = ["Handing"]
