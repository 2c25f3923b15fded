"""What is said to a plan reaches the colleague that looks at its work meanwhile: in that very step.

The plan itself takes the words in; a pause ends the colleague's work too, guidance is told to both
actors, and a new limit bounds both.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from patchyard.domain.assessing import TaskAssessed
from patchyard.domain.budget import PlanLimits
from patchyard.domain.events import LimitsChanged, PlanCreated
from patchyard.domain.limit_settings import BOUNDS, LimitSettings, within
from patchyard.domain.steering import Guided
from patchyard.engine.ledger import Ledger
from patchyard.engine.steering import Steering
from patchyard.engine.timekeeping import Deadline


@dataclass(frozen=True, kw_only=True)
class Elder:
    """A plan at work, as the colleague knows it that the plan asked."""

    ledger: Ledger
    steering: Steering
    left: Callable[[], PlanLimits]  # of the plan's limits, for this colleague


class Following:
    """One colleague's ear at the plan that asked it."""

    def __init__(
        self, elder: Elder, ledger: Ledger, steering: Steering, deadline: Deadline
    ) -> None:
        self._elder = elder
        self._ledger = ledger
        self._steering = steering
        self._deadline = deadline
        self._bounds: PlanLimits | None = None  # the elder's, that are passed on

    async def begin(self) -> None:
        """Bound the colleague by what is left, and listen from now on."""
        await self._bound()
        self._steering.follow(self._elder.steering, self._listen)

    async def _listen(self) -> None:
        """Take in what was said to the elder. Raises PlanPaused, and it is the elder's pause."""
        await self._elder.steering.step()
        if self._elder.ledger.state.limits != self._bounds:
            await self._bound()
        await self._guide()

    async def _bound(self) -> None:
        elder = self._elder.ledger.state
        self._bounds, limits = elder.limits, self._elder.left()
        if limits.seconds is not None:  # its own time is in the elder's already
            limits = replace(limits, seconds=limits.seconds + self._ledger.state.spent.seconds)
        most = self._ledger.state.known.charter.limits
        if most != LimitSettings():
            limits = within(limits, _untouched(most, await self._made_with(), elder.limits))
        await self._ledger.record(LimitsChanged(limits=limits))
        self._deadline.set(limits.seconds)

    async def _made_with(self) -> PlanLimits:
        """Return the limits of the elder before they were set by hand, not its own strategy."""
        made = PlanLimits()
        for _, _, event in await self._elder.ledger.events():
            if isinstance(event, PlanCreated):
                made = event.spec.limits
            elif isinstance(event, TaskAssessed) and event.limits is not None:
                made = event.limits
        return made

    async def _guide(self) -> None:
        """Pass on the guidance that the elder's actor has not heard yet, each once."""
        guidance = self._elder.ledger.state.steered.guidance
        if not guidance:
            return
        events = await self._ledger.events()
        told = {event.guidance_id for _, _, event in events if isinstance(event, Guided)}
        for each in guidance:
            if each.guidance_id not in told:
                await self._ledger.record(replace(each, word=0))


def _untouched(most: LimitSettings, made: PlanLimits, now: PlanLimits) -> LimitSettings:
    """Return what of a role's limits still counts: nobody has set the elder's own of it anew."""
    anew = {key: None for key, name in BOUNDS.items() if getattr(made, name) != getattr(now, name)}
    return replace(most, **anew)


__all__ = ["Elder", "Following"]
