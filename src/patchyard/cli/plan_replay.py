"""`agents plan replay`: a plan carried out again from its journal, without model or network."""

import click

from patchyard.cli.opening import opened
from patchyard.cli.outcome import JSON, Outcome, carry_out, format_option, one_line
from patchyard.cli.plan_act import plan_argument, stream_option
from patchyard.cli.progress import SpokenLines
from patchyard.cli.working import watching
from patchyard.domain.codec import to_json
from patchyard.engine.replaying import ReplayDiffers, Replayed, replay
from patchyard.engine.workflow import Workflow


@click.command("replay", epilog="Example: agents plan replay @last")
@plan_argument
@click.option("--yes", is_flag=True, help="Also calls that can reach beyond the workspace.")
@stream_option
@format_option
def replay_command(plan_id: str, output_format: str, *, stream: bool, yes: bool) -> None:
    """Make a plan's calls once more, in a fresh place; exit 1 unless the same change set comes.

    What a plan did on `host`, or to a mount that it could write to, would be done there again:
    that is refused (exit 3) without --yes.
    """

    async def work() -> Outcome:
        async with opened(plan_id) as (equipment, found):
            is_json = output_format == JSON
            spoken = SpokenLines(opening=f"replay of plan {found}")
            with watching(found, is_json=is_json, stream=stream, spoken=spoken) as watched:
                workflow = Workflow(equipment, watching=watched)
                came = await replay(equipment, workflow, found, is_allowed=yes)
        data = {"plan_id": found, "replay": {**to_json(came), "is_same": came.is_same}}
        return Outcome(data=data, text=_said(came), error=_difference(came))

    carry_out("plan replay", output_format, work, stream=stream)


def _said(came: Replayed) -> str:
    if came.is_same:
        return f"the same change set: tree {came.tree}"
    return "\n".join(one_line(path) for path in came.paths)


def _difference(came: Replayed) -> ReplayDiffers | None:
    if came.is_same:
        return None
    count = len(came.paths)
    paths = "1 path differs" if count == 1 else f"{count} paths differ"
    hint = f"`agents plan diff {came.plan_id}` shows what it came to"
    if came.cut:
        calls = "1 call of the plan was" if came.cut == 1 else f"{came.cut} calls of the plan were"
        hint = f"{calls} cut short, which a replay makes to the end; {hint}"
    return ReplayDiffers(
        f"the replay came to another change set: {paths}",
        hint=hint,
        details={"paths": list(came.paths)},
    )


__all__ = ["replay_command"]
