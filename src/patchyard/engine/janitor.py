"""Returns what plans and killed processes have left on the machine. Decides nothing itself.

Beside running plans: what belongs to one plan is only touched while its claim is held here, what
plans share only when none of them names it and none asked for it lately. Killed at any point it
begins again where it was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchyard.contracts.leftovers import Keeper
from patchyard.domain import retention
from patchyard.domain.errors import Conflict, JournalBroken, PatchyardError, UsageError
from patchyard.domain.events import EnvironmentEnded, WorkspaceRemoved
from patchyard.domain.plan import State
from patchyard.domain.retention import Family, Found, Retention, Verdict
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.enduring import Enduring
from patchyard.engine.equipment import Equipment
from patchyard.engine.inspecting import differs, is_listed
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.parting import in_time

OF_PLANS = (Family.ENVIRONMENT, Family.MOUNT, Family.WORKSPACE, Family.CHECKPOINTS)
UNREAD = "a plan may need it whose journal cannot be read"
TAKEN = "another process works on its plan"
UNDER_WAY = frozenset({str(State.QUEUED), str(State.PROCESSING)})


@dataclass(frozen=True, kw_only=True)
class Returned:
    """What became of one thing."""

    verdict: Verdict
    bytes: int = 0  # that it takes, or took, on its disk
    is_done: bool = False  # it is gone; never in a dry run
    obstacle: str = ""  # why it is still there although it may go


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One pass."""

    things: Sequence[Returned]
    is_dry: bool
    damaged: Sequence[str] = ()  # what is wrong with journals: all that their plans have is kept

    @property
    def freed(self) -> int:
        """Bytes given back, or in a dry run: to be given back."""
        return sum(
            each.bytes
            for each in self.things
            if each.is_done or (self.is_dry and each.verdict.may_go and not each.obstacle)
        )


class Janitor:
    """One pass over all that this installation has on the machine."""

    def __init__(
        self,
        equipment: Equipment,
        *,
        kept: Retention,
        is_dry: bool = False,
        weighs: bool = True,
    ) -> None:
        """Take the seams and how long to keep; `weighs` says whether sizes are wanted."""
        self._equipment = equipment
        self._keepers = {keeper.family: keeper for keeper in equipment.keepers}
        self._pruning = equipment.pruning
        self._kept = kept
        self._is_dry = is_dry
        self._weighs = weighs
        self._now = equipment.clock.now()
        self._lifecycle = PlanLifecycleService(equipment)
        self._endures = Enduring(self._damaged_by)
        self._is_unseeing = False  # what some family has could not be looked at
        self._done: list[Returned] = []
        self._needed: set[str] = set()  # by plans that stay
        self._forgotten: set[str] = set()  # plans whose journal goes
        self._damaged: list[str] = []  # what is wrong with journals, which keeps what is theirs
        self._is_blind = False  # to what a plan needs, for its journal is damaged
        self._removed: set[str] = set()  # plans that are known to have gone
        self._unlisted: set[str] = set()  # plans whose line in the list is lost or damaged
        self._unread: dict[str, Mapping[str, object]] = {}  # plans known by their lines alone

    def _damaged_by(self, said: str) -> None:
        self._damaged.append(said)

    async def sweep(self) -> Sweep:
        """Look at everything, return what may go, and say what became of each thing."""
        # Before the list: what another engine makes meanwhile is of a plan that the list has then.
        found = {family: await self._found(keeper) for family, keeper in self._keepers.items()}
        listed = dict(await self._equipment.store.summaries.summaries())
        self._is_blind = self._is_unseeing
        self._is_blind |= any("repository" not in row for row in listed.values())
        self._unlisted = {plan for plan, row in listed.items() if not is_listed(row)}
        self._unread = dict(listed)
        self._removed = {each.plan_id for each in await self._pruning.removed()}
        of_plans = _by_plan([each for family in OF_PLANS for each in found.get(family, ())])
        old = {plan for plan, row in listed.items() if self._may_be_due(row)} | self._unlisted
        busy = {plan for plan, row in listed.items() if row.get("state") in UNDER_WAY}
        for plan_id in sorted({*of_plans, *old, *busy}):
            things = of_plans.get(plan_id, [])
            with self._endures.passing(f"plan {plan_id}") as passing:
                if plan_id not in listed:
                    await self._orphans(plan_id, things)
                elif things or plan_id in old:
                    await self._plan(plan_id, things)
                else:
                    await self._need(plan_id)
            self._is_blind |= passing.error is not None
        stays = [row for plan, row in listed.items() if plan not in self._forgotten]
        tops = {str(row.get("repository", "")) for row in stays} | await self._tops()
        self._needed |= {retention.store_key(top) for top in tops} | tops
        shared = [each for family in retention.CACHES for each in found.get(family, ())]
        await self._share(shared)
        is_busy = self._is_unseeing or any(
            each.is_live for each in found.get(Family.ENVIRONMENT, ())
        )
        is_busy |= any(each.verdict.reason == TAKEN for each in self._done)
        for each in [each for family in retention.FURNITURE for each in found.get(family, ())]:
            judged = retention.judged_furniture(each, self._now, self._kept, is_busy=is_busy)
            await self._judge(judged)
        for each in found.get(Family.TEMPORARY, ()):
            await self._judge(retention.judged_temporary(each, self._now, self._kept))
        if not self._is_dry:
            await self._pruning.sweep_bodies()
        damaged = tuple(self._damaged)
        return Sweep(things=tuple(self._done), is_dry=self._is_dry, damaged=damaged)

    async def _found(self, keeper: Keeper) -> Sequence[Found]:
        """Return what one keeper finds; where it cannot look, what plans share is all kept."""
        with self._endures.passing(f"things of the family {keeper.family}"):
            return await keeper.found()
        self._is_unseeing = True
        return ()

    async def _tops(self) -> set[str]:
        """Return the checkouts of projects; where they cannot be read, what is shared is kept."""
        with self._endures.passing("the projects"):
            catalogue = Catalogue(self._equipment.store.journal, self._equipment.clock)
            projects = (await catalogue.holdings()).projects.values()
            return {each.repository for each in projects}
        self._is_blind = True
        return set()

    async def _share(self, things: Sequence[Found]) -> None:
        """Return what plans shared and none needs; what cannot be made again, by their events."""
        needed = frozenset(self._needed)
        judged = [retention.judged_cache(each, needed, self._now, self._kept) for each in things]
        if any(each.may_go and each.found.family == Family.STORE for each in judged):
            for plan_id in sorted(self._unread.keys() - self._forgotten):
                await self._need(plan_id)
        if self._is_blind:
            await self._leave(things, UNREAD)
            return
        needed = frozenset(self._needed)
        for each in things:
            await self._judge(retention.judged_cache(each, needed, self._now, self._kept))

    def _may_be_due(self, row: Mapping[str, object]) -> bool:
        updated = row.get("updated")
        return isinstance(updated, (int, float)) and self._now - updated > self._kept.journals

    async def _plan(self, plan_id: str, things: Sequence[Found]) -> None:
        """Return what one plan has no use for, while nobody else can own it.

        It is only owned when there is something to return: whoever wants it would be refused.
        """
        equipment = self._equipment
        try:
            store, clock = equipment.store, equipment.clock
            ledger = await Ledger.open(store, clock, plan_id, is_checked=True)
            row = self._unread.pop(plan_id, {})
            if not self._is_dry and (not is_listed(row) or await differs(row, ledger)):
                await ledger.relist()
            has_some = retention.has_leftovers(things, ledger.state, self._now, self._kept)
            if has_some and await equipment.claims.holder(plan_id) is not None:
                await self._taken(plan_id, things)
            elif has_some and not self._is_dry:
                async with self._lifecycle.owned(plan_id) as owned, owned.sole():
                    await self._owned(owned, things)
            else:
                await self._owned(ledger, things)
        except Conflict:
            await self._taken(plan_id, things)
        except JournalBroken as error:
            self._is_blind = True
            self._damaged.append(error.message)
            await self._leave(things, error.message)
        except UsageError:
            await self._leave(things, "another janitor has just been at it")

    async def _taken(self, plan_id: str, things: Sequence[Found]) -> None:
        await self._need(plan_id)
        await self._leave(things, TAKEN)

    async def _leave(self, things: Sequence[Found], reason: str) -> None:
        for each in things:
            await self._judge(Verdict(found=each, may_go=False, reason=reason))

    async def _need(self, plan_id: str) -> None:
        """Keep what a plan names; all that plans share, where that cannot be read."""
        self._unread.pop(plan_id, None)
        try:
            ledger = await Ledger.open(self._equipment.store, self._equipment.clock, plan_id)
        except (JournalBroken, UsageError):
            self._is_blind = True
        else:
            self._needed |= retention.named_by(ledger.state)

    async def _owned(self, ledger: Ledger, things: Sequence[Found]) -> None:
        is_used = False
        is_due = retention.is_journal_due(ledger.state, self._now, self._kept)
        for each in _of(things, Family.ENVIRONMENT):
            verdict = retention.judged_environment(each, ledger.state, self._now)
            is_used |= each.is_live and not verdict.may_go
            if await self._judge(verdict) and each.name in ledger.state.environments:
                ended = EnvironmentEnded(environment_id=each.name, reason="returned by the janitor")
                await ledger.record(ended)
        for each in _of(things, Family.MOUNT):
            await self._judge(retention.judged_mount(each, is_used=is_used))
        keeps_tree = True
        for each in _of(things, Family.WORKSPACE):
            may_go = await self._workspace(ledger, each, is_used=is_used, is_due=is_due)
            keeps_tree &= not (may_go and each.name == ledger.plan_id)
        for each in _of(things, Family.CHECKPOINTS):
            await self._judge(retention.judged_checkpoints(each, is_due=is_due))
        if is_due:
            await self._journal(ledger)
        else:
            self._needed |= retention.named_by(ledger.state, keeps_tree=keeps_tree)

    async def _workspace(self, ledger: Ledger, each: Found, *, is_used: bool, is_due: bool) -> bool:
        """Return a tree if it may go; the plan is told before, unless its journal goes as well."""
        state = ledger.state
        verdict = retention.judged_workspace(each, state, self._now, self._kept, is_used=is_used)
        is_own = each.name == state.plan_id and state.workspace is not None
        if verdict.may_go and is_own and not (self._is_dry or is_due):
            await ledger.record(WorkspaceRemoved(workspace_id=each.name))
        await self._judge(verdict)
        return verdict.may_go

    async def _journal(self, ledger: Ledger) -> None:
        state = ledger.state
        found = Found(
            family=Family.JOURNAL,
            name=state.plan_id,
            place=f"plan {state.plan_id}",
            plan_id=state.plan_id,
            used=state.updated,
        )
        verdict = Verdict(found=found, may_go=True, reason="its plan has been at rest for long")
        is_left = any(
            each.verdict.found.plan_id == state.plan_id and bool(each.obstacle)
            for each in self._done
        )
        if is_left:
            self._needed |= retention.named_by(state)
            kept = "something of it could not be returned"
            self._done.append(Returned(verdict=verdict, obstacle=kept))
            return
        self._forgotten.add(state.plan_id)
        if self._is_dry:
            self._done.append(Returned(verdict=verdict))
            return
        removed = retention.Removed(
            plan_id=state.plan_id,
            events=state.version,
            head=await ledger.head(),
            at=self._now,
        )
        await self._pruning.forget(removed)
        self._done.append(Returned(verdict=verdict, is_done=True))

    async def _orphans(self, plan_id: str, things: Sequence[Found]) -> None:
        """Return what no plan of this journal knows, but for the work of one that it may have lost.

        What plans share is kept then, too: a backup of the journal needs it.
        """
        was_removed = plan_id in self._removed
        if not was_removed and any(map(retention.is_work, things)):
            self._is_blind = True
            self._damaged.append(f"{plan_id}: {retention.UNKNOWN}")
        is_used = any(each.is_live for each in _of(things, Family.ENVIRONMENT))
        for each in things:
            if each.family == Family.ENVIRONMENT:
                await self._judge(retention.judged_environment(each, None, self._now))
            elif retention.is_pooled(each):
                verdict = retention.judged_pooled(each, self._now, is_used=is_used)
                await self._judge(verdict)
            else:
                verdict = retention.judged_orphan(each, self._now, was_removed=was_removed)
                await self._judge(verdict)

    async def _judge(self, verdict: Verdict) -> bool:
        """Do what the verdict says and keep what came of it; return whether the thing is gone."""
        found = verdict.found
        keeper = self._keepers[found.family]
        size, done, obstacle = 0, False, ""
        with self._endures.passing(f"the size of {found.place}"):
            size = await keeper.size(found) if self._weighs else 0
        if verdict.may_go and not self._is_dry:
            try:
                done = await in_time(keeper.give_back(found, unused_since=found.used))
            except Exception as error:  # noqa: BLE001 - told as what is in the way of this thing
                obstacle = error.message if isinstance(error, PatchyardError) else str(error)
            else:
                obstacle = "" if done else "somebody has just made use of it"
        self._done.append(Returned(verdict=verdict, bytes=size, is_done=done, obstacle=obstacle))
        return done


def _by_plan(things: Sequence[Found]) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {}
    for each in things:
        found.setdefault(each.plan_id, []).append(each)
    return found


def _of(things: Sequence[Found], family: Family) -> list[Found]:
    return [each for each in things if each.family == family]


__all__ = ["Janitor", "Returned", "Sweep"]
