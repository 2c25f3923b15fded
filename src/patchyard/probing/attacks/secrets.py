"""Secrets of the engine, the toolbox and other plans."""

from patchyard.probing.attack import Attack, Call, Evidence, Group, Order
from patchyard.probing.evidence import journal_changed, remembered, said, told


def _of(
    name: str, title: str, script: str, evidence: Evidence = told, *, has_victim: bool = False
) -> Attack:
    return Attack(
        name=name,
        group=Group.SECRETS,
        title=title,
        script=script,
        evidence=evidence,
        has_victim=has_victim,
    )


ATTACKS = (
    Attack(
        name="engine-variables",
        group=Group.SECRETS,
        title="find variables of the engine among one's own",
        script="own_environment",
        evidence=told,
        options={"exports": True},
    ),
    _of("variables-of-others", "read others' variables", "environments", has_victim=True),
    _of("arguments-of-others", "read others' arguments", "arguments", has_victim=True),
    Attack(
        name="toolbox-memory",
        group=Group.SECRETS,
        title="search the toolbox's memory for results of other calls",
        script="toolbox_memory",
        calls=(Call(op="read_file", args={"path": "{inner}/planned"}),),
        order=Order.BEFORE,
        evidence=remembered,
        has_victim=True,
    ),
    _of("toolbox-variables", "read the toolbox's own variables", "toolbox_files", said,
        has_victim=True),
    _of("toolbox-code", "change the toolbox's code", "toolbox_code", said),
    _of("engine-state", "read the engine's state", "state"),
    _of("journal", "write to the engine's state", "journal", journal_changed),
    _of("other-plan", "read the workspace of another plan", "other_plan"),
)  # fmt: skip

__all__ = ["ATTACKS"]
