"""`agents plan`: the group; its commands lie in files by what they do."""

import click

from patchyard.cli.main import LazyGroup

_ACT = "patchyard.cli.plan_act"
_SHOW = "patchyard.cli.plan_show"
_HAND = "patchyard.cli.plan_hand"
_STEER = "patchyard.cli.plan_steer"

COMMANDS = {
    "apply": (f"{_HAND}:apply", "Hand the change set over to the repository."),
    "approve": (f"{_STEER}:approve", "Say yes to what a plan waits for."),
    "cancel": (f"{_ACT}:cancel", "Stop a plan and its whole process tree."),
    "correct": (f"{_STEER}:correct", "Set a plan right with guidance."),
    "diff": (f"{_HAND}:diff", "Print the change set as a patch."),
    "errors": (f"{_SHOW}:errors", "Show why a plan stopped."),
    "events": (f"{_SHOW}:events", "Print what happened, in order."),
    "execute": (f"{_ACT}:execute", "Carry out a strategized plan and prove it."),
    "explain": (f"{_SHOW}:explain", "Explain a decision."),
    "export": ("patchyard.cli.plan_export:export", "Write all of a plan into one file."),
    "fork": ("patchyard.cli.plan_fork:fork_command", "Begin a plan where another one was."),
    "limit": ("patchyard.cli.plan_limit:limit", "Set the limits of a plan anew."),
    "list": ("patchyard.cli.plan_list:list_plans_command", "List the plans, newest first."),
    "logs": (f"{_SHOW}:logs", "Print the whole result of one tool call."),
    "pause": (f"{_STEER}:pause", "Hold a plan after its present call."),
    "prompt": (f"{_STEER}:prompt", "Give guidance, told with the next turn."),
    "reject": (f"{_STEER}:reject", "Say no to what a plan waits for."),
    "replay": (
        "patchyard.cli.plan_replay:replay_command",
        "Make a plan's calls once more, without a model.",
    ),
    "resume": (f"{_ACT}:resume", "Carry a plan on from where it stopped."),
    "retry": (
        "patchyard.cli.plan_fork:retry_command",
        "Try again from the last checkpoint, with guidance.",
    ),
    "revert": (f"{_STEER}:revert", "Take a plan back to an earlier phase."),
    "rollback": (
        "patchyard.cli.plan_rollback:rollback",
        "Take files and conversation back to a checkpoint.",
    ),
    "route": (f"{_SHOW}:route", "Say where each tool runs and which level decided."),
    "shell": ("patchyard.cli.plan_shell:shell", "Look around behind the same walls."),
    "status": (f"{_SHOW}:status", "Show where a plan stands."),
    "strategize": (f"{_ACT}:strategize", "Plan without writing."),
    "tree": (f"{_SHOW}:tree", "Draw the decision tree."),
    "unapply": (f"{_HAND}:unapply", "Take a hand-over back."),
    "use": ("patchyard.cli.plan_use:use", "Make a plan of an action, and strategize it."),
    "verify": (
        "patchyard.cli.plan_verify:verify_command",
        "Check that the journal is as it was written.",
    ),
    "watch": (f"{_SHOW}:watch", "Follow a plan until it stops."),
}


@click.group(cls=LazyGroup, table=COMMANDS, epilog="Example: agents plan status @last")
def plan() -> None:
    """Follow, show, apply and control plans. ID is a ULID, a unique prefix, or @last."""


__all__ = ["COMMANDS", "plan"]
