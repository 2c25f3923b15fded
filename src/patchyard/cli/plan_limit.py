"""`agents plan limit`: money, tokens, steps, calls and time of a plan, set anew."""

from typing import Any

import click

from patchyard.cli.cataloguing import fields
from patchyard.cli.opening import opened
from patchyard.cli.outcome import Outcome, carry_out, format_option
from patchyard.cli.plan_act import plan_argument
from patchyard.domain.budget import PlanLimits, raised
from patchyard.domain.durations import parse_duration
from patchyard.domain.errors import UsageError
from patchyard.engine.ledger import Ledger
from patchyard.engine.limiting import set_limits
from patchyard.engine.report import plan_data

LATER = "its owner is in the middle of a step: the limits count from the next one"


@click.command(epilog="Example: agents plan limit @last --budget-usd +2 && agents plan resume")
@plan_argument
@click.option("--budget-usd", help="Money: 5, or +2 for so much more.")
@click.option("--max-tokens", help="Tokens in and out together: 100000, or +50000.")
@click.option("--max-steps", help="Turns of the actor: 300, or +100.")
@click.option("--max-calls", help="Calls of tools: 500, or +100.")
@click.option("--timeout", help="Time over all phases: 2h, or +30m.")
@format_option
def limit(plan_id: str, output_format: str, **asked: str | None) -> None:
    """Set limits of a plan anew, while somebody works on it too.

    A plan that a limit has stopped is carried on by `agents plan resume`.
    """

    async def work() -> Outcome:
        if not any(asked.values()):
            raise UsageError("no limit is named", hint="for example --budget-usd +2")
        async with opened(plan_id) as (equipment, found):
            counts = await set_limits(equipment, found, lambda now: _set_anew(now, asked))
            data = await plan_data(await Ledger.open(equipment.store, equipment.clock, found))
        text = fields(data["cost"]["limits"])
        return Outcome(data=data | {"is_taken_in": counts}, text=text if counts else LATER)

    carry_out("plan limit", output_format, work)


def _set_anew(limits: PlanLimits, asked: dict[str, Any]) -> PlanLimits:
    usd, tokens, steps = limits.usd, limits.tokens, limits.steps
    seconds, calls = limits.seconds, limits.calls
    if asked["budget_usd"]:
        usd = raised(usd, asked["budget_usd"], name="--budget-usd")
    if asked["max_tokens"]:
        tokens = _whole(tokens, asked["max_tokens"], name="--max-tokens")
    if asked["max_steps"]:
        steps = _whole(steps, asked["max_steps"], name="--max-steps")
    if asked["max_calls"]:
        calls = _whole(calls, asked["max_calls"], name="--max-calls")
    if asked["timeout"]:
        sign = "+" if asked["timeout"].startswith("+") else ""
        time = parse_duration(asked["timeout"].removeprefix("+"))
        seconds = raised(seconds, f"{sign}{time!r}", name="--timeout")
    return PlanLimits(usd=usd, tokens=tokens, steps=steps, seconds=seconds, calls=calls)


def _whole(before: int | None, asked: str, *, name: str) -> int:
    value = raised(before, asked, name=name)
    if value != int(value):
        raise UsageError(f"{name} must be a whole number, not {asked}")
    return int(value)


__all__ = ["limit"]
