"""What bounds and proves a plan: limits and gates of settings, the action and the role."""

from collections.abc import Sequence
from dataclasses import replace

from patchyard.configuration import REPOSITORY_FILE, Configuration
from patchyard.domain.action import Filled
from patchyard.domain.assessing import ADJUSTABLE
from patchyard.domain.budget import PlanLimits
from patchyard.domain.effective import DEFAULT, Setting
from patchyard.domain.errors import UsageError
from patchyard.domain.gate_settings import Gates, merged_gates
from patchyard.domain.gates import Gate
from patchyard.domain.limit_settings import BOUNDS, LIMIT_KEYS, rounds_within, shown, within
from patchyard.domain.role import Role
from patchyard.domain.safety import SafetyProfile

OPTIONS = {
    "budget_usd": "--budget-usd",
    "max_steps": "--max-steps",
    "max_tokens": "--max-tokens",
    "rounds": "--rounds",
    "timeout": "--timeout",
}


def limits_in_force(
    settings: Configuration, agent: str, safety: SafetyProfile, charter: Role
) -> PlanLimits:
    """Return a plan's limits: of each the smaller of what settings and the role say."""
    steps = settings.values["limits.max_steps"]
    usd = settings.value("limits.budget_usd")
    if safety.max_cost_per_plan is not None:
        usd = min(usd, safety.max_cost_per_plan)
    # A recipe is bounded by its steps and its time; the default is meant for models.
    unbounded = agent == "recipe" and steps.origin == DEFAULT
    said = PlanLimits(
        usd=usd,
        tokens=settings.value("limits.max_tokens"),
        steps=None if unbounded else steps.value,
        calls=settings.value("limits.max_calls"),
        seconds=settings.value("limits.timeout"),
    )
    return within(said, charter.limits)


def adjustable_in(settings: Configuration, limits: PlanLimits) -> tuple[str, ...]:
    """Return which of a plan's `limits` were left unset: what the strategy says may move them."""
    usual, unset = PlanLimits(), []
    for key, name in BOUNDS.items():
        is_usual = getattr(limits, name) == getattr(usual, name)
        if name in ADJUSTABLE and is_usual and settings.values[f"limits.{key}"].origin == DEFAULT:
            unset.append(name)
    return tuple(unset)


def rounds_in_force(settings: Configuration, charter: Role) -> int:
    """Return how often a failed proof goes back to the actor."""
    return rounds_within(settings.value("limits.rounds"), charter.limits)


def lowered(settings: Configuration, charter: Role) -> tuple[str, ...]:
    """Return a sentence for each limit that somebody set and the role lowers.

    Raises UsageError for one that was typed as an option.
    """
    told = []
    for key in LIMIT_KEYS:
        setting, most = settings.values[f"limits.{key}"], getattr(charter.limits, key)
        if most is None or setting.value is None or setting.value <= most:
            continue
        if setting.origin == "option":
            said = f"{OPTIONS[key]} {shown(key, setting.value)} is more than"
            raise UsageError(
                f"{said} the role {charter.name} may use: {shown(key, most)}",
                hint=f"say no more than that, or raise `limits.{key}` in {charter.source}",
            )
        if setting.origin != DEFAULT:
            told.append(
                f"the role {charter.name} lowers limits.{key} to {shown(key, most)}"
                f" ({shown(key, setting.value)}: {setting.origin})"
            )
    return tuple(told)


def gates_in_force(
    settings: Configuration, filled: Filled | None, charter: Role
) -> tuple[Gate, ...]:
    """Return the gates of a plan; the first place that names one decides on it.

    Where a person's own line says `--validate ''` nothing is proven.
    """
    if _proves_nothing(settings):
        return ()
    return merged_gates([*_nearer(settings, filled), charter.gates, *_of_repository(settings)])


def with_undecided(
    roles: Sequence[Role], settings: Configuration, filled: Filled | None
) -> tuple[Role, ...]:
    """Return roles with those of their gates that no nearer place decides on."""
    decided = {name for gates in _nearer(settings, filled) for name in gates}
    is_off = _proves_nothing(settings)
    return tuple(
        replace(
            role,
            gates={
                name: gate
                for name, gate in role.gates.items()
                if not is_off and name not in decided
            },
        )
        for role in roles
    )


def _proves_nothing(settings: Configuration) -> bool:
    return settings.values["validate"] == Setting(value=(), origin="option")


def _nearer(settings: Configuration, filled: Filled | None) -> list[Gates]:
    """Return the gates of the places that go before a role."""
    own = (filled.gates if filled else None) or {}
    return [own, *_said(settings, is_repository=False)]


def _of_repository(settings: Configuration) -> list[Gates]:
    """Return the repository's gates: a role is the user's, so that none of these replaces its."""
    return _said(settings, is_repository=True)


def _said(settings: Configuration, *, is_repository: bool) -> list[Gates]:
    return [
        layer.settings.gates
        for layer in settings.layers
        if layer.settings.gates and (layer.origin == REPOSITORY_FILE) is is_repository
    ]


__all__ = [
    "adjustable_in",
    "gates_in_force",
    "limits_in_force",
    "lowered",
    "rounds_in_force",
    "with_undecided",
]
