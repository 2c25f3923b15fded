"""What may go: decided from what lies there, who made it, and how its plan stands. Pure."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from patchyard.domain.ids import LENGTH, is_ulid
from patchyard.domain.plan import Phase, State
from patchyard.domain.state import PlanState

DAY_S = 86_400.0
GRACE_S = 3600.0  # what was asked for so lately may be about to be used
OUTSIDE = "patchyard-"  # begins the names of our folders among everybody's temporary ones
BUILD = f"{OUTSIDE}build-"  # of a container image
DEMO = f"{OUTSIDE}demo-"
OWNED = re.compile(r"patchyard-[a-z]+-\d+-")  # begins those that say the number of their process
UNKNOWN = "the journal does not know its plan, nor that it was removed"
POOLED = "-pool"  # ends the names of trees that wait for a plan
START_S = 600.0  # an environment that no plan knows after so long never will be known


class Family(StrEnum):
    """The kinds of things that Patchyard leaves on a machine."""

    ENVIRONMENT = "environment"
    MOUNT = "mount"  # of a workspace
    WORKSPACE = "workspace"  # a plan's own tree, and those for one purpose
    CHECKPOINTS = "checkpoints"  # contents that a plan's checkpoints name
    BASE = "base"  # our checkout of a tree, and the `.git` that goes with it
    LAYER = "layer"  # what setup wrote
    STORE = "store"  # our objects and histories of one repository
    CLONE = "clone"  # of a repository that was named by its address
    MACHINE = "machine"  # files that virtual machines start from
    TOOLBOX = "toolbox"  # compiled, and Pythons that are carried along
    TEMPORARY = "temporary"  # of a process that was killed
    JOURNAL = "journal"


CACHES = frozenset(
    {Family.BASE, Family.CLONE, Family.LAYER, Family.STORE}
)  # shared, and made again
FURNITURE = frozenset({Family.MACHINE, Family.TOOLBOX})  # likewise, by environments


@dataclass(frozen=True, kw_only=True)
class Found:
    """One thing of ours."""

    family: Family
    name: str  # unique in its family
    place: str  # where it lies
    plan_id: str = ""  # whose it is; empty: of no single plan
    used: float = 0.0  # seconds since the epoch: when it was last made use of
    is_live: bool = False  # something works there at this moment
    is_copy: bool = False  # of another home's: what runs there is not this home's to end
    is_labelled: bool = True  # its label names this installation; else only its plan tells
    resource: str = ""  # of an environment: the linked one that it is reached through
    details: Mapping[str, Any] = field(default_factory=dict)  # the keeper's own


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How long things are kept, in seconds."""

    workspaces: float = 7 * DAY_S  # of finished plans, after their last event
    journals: float = 90 * DAY_S  # of plans that nobody carries on; their workspaces go with them
    caches: float = GRACE_S  # bases, layers and stores that no plan needs
    machines: float = 14 * DAY_S  # what environments start from, after the last that did


@dataclass(frozen=True, kw_only=True)
class Removed:
    """A plan whose journal was kept long enough: all that is still known of it."""

    plan_id: str
    events: int
    head: str  # hash of its last event
    at: float  # when it was removed, seconds since the epoch


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What becomes of one thing, and why."""

    found: Found
    may_go: bool
    reason: str


def is_finished(state: PlanState) -> bool:
    """Whether the work is done: its change set is stored, or applied."""
    if state.phase == Phase.APPLY:
        return state.state == State.APPLIED
    return (state.phase, state.state) == (Phase.EXECUTE, State.COMPLETE)


def is_under_way(state: PlanState) -> bool:
    """Whether the plan is being worked on, or waits to be: it never goes by itself."""
    return state.state in {State.QUEUED, State.PROCESSING}


def is_journal_due(state: PlanState, now: float, retention: Retention) -> bool:
    """Whether everything of a plan may go: nobody works on it, nor has for that long."""
    return not is_under_way(state) and now - _touched(state) > retention.journals


def is_workspace_due(state: PlanState, now: float, retention: Retention) -> bool:
    """Whether a plan's own tree may go; one that stopped keeps its work for `plan resume`."""
    is_done = is_finished(state) and now - _touched(state) > retention.workspaces
    return is_done or is_journal_due(state, now, retention)


def _touched(state: PlanState) -> float:
    """Return when somebody last did something to a plan, by a clock that may have been set back."""
    return max(state.created, state.updated)


def owner_of(name: str) -> str:
    """Return the plan that a workspace's name begins with, empty for none."""
    plan_id = name[:LENGTH]
    return plan_id if is_ulid(plan_id) else ""


def named_by(state: PlanState, *, keeps_tree: bool = True) -> frozenset[str]:
    """Return the places and trees that a plan may need again.

    Once its work is at rest and its own tree is gone, that is the store of its objects alone.
    """
    found: set[str] = set()
    if state.base is not None:
        found.add(state.base.store)
    if not is_under_way(state) and (state.workspace is None or not keeps_tree):
        return frozenset(found)
    if state.base is not None:
        found.add(state.base.tree)
    if state.setup is not None:
        found |= {state.setup.layer, state.setup.key}
    if state.workspace is not None:
        found |= set(_texts(state.workspace))
    return frozenset(found - {""})


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    return []


def is_named(found: Found, names: frozenset[str]) -> bool:
    """Whether one of `names` is the thing itself, or lies in it."""
    below = f"{found.place}/"
    base = found.name.partition(".")[0]  # TREE, and TREE.git-COMMIT-BRANCH beside it
    return any(name in {found.name, found.place, base} or name.startswith(below) for name in names)


def judged_cache(found: Found, needed: frozenset[str], now: float, retention: Retention) -> Verdict:
    """Judge what plans share: it goes when none needs it and none asked for it lately."""
    if kept := found.details.get("kept"):
        return Verdict(found=found, may_go=False, reason=str(kept))
    if is_named(found, needed):
        return Verdict(found=found, may_go=False, reason="a plan needs it")
    if now - found.used < retention.caches:
        return Verdict(found=found, may_go=False, reason="it was asked for lately")
    return Verdict(found=found, may_go=True, reason="no plan needs it")


def judged_furniture(found: Found, now: float, retention: Retention, *, is_busy: bool) -> Verdict:
    """Judge what environments start from; `is_busy`: one runs, and it may be from this."""
    if is_busy:
        return Verdict(found=found, may_go=False, reason="an environment runs that may need it")
    if now - found.used < max(retention.machines, GRACE_S):
        return Verdict(found=found, may_go=False, reason="an environment started from it lately")
    return Verdict(found=found, may_go=True, reason="no environment has started from it for long")


def has_leftovers(
    things: Sequence[Found], state: PlanState, now: float, retention: Retention
) -> bool:
    """Whether something of a plan may go, once nobody else owns it."""
    if is_journal_due(state, now, retention):
        return True
    environments = [each for each in things if each.family == Family.ENVIRONMENT]
    judged = [judged_environment(each, state, now) for each in environments]
    is_used = any(each.found.is_live and not each.may_go for each in judged)
    for each in things:
        if each.family == Family.MOUNT:
            judged.append(judged_mount(each, is_used=is_used))
        elif each.family == Family.WORKSPACE:
            judged.append(judged_workspace(each, state, now, retention, is_used=is_used))
    return any(each.may_go for each in judged)


def judged_environment(found: Found, state: PlanState | None, now: float) -> Verdict:
    """Judge an environment whose plan, if any, is owned by nobody else at this moment.

    One that still runs is left to its plan while that can be taken up again: it ends by itself.
    """
    if state is None:
        is_old = now - found.used > START_S and not found.is_live  # alive it will end by itself
        reason = "no plan knows of it" if is_old else "it may just have been started"
        return Verdict(found=found, may_go=is_old, reason=reason)
    if found.is_copy:
        reason = "it was copied from another home: what runs there is left alone"
        return Verdict(found=found, may_go=True, reason=reason)
    if found.is_live and is_under_way(state):
        return Verdict(found=found, may_go=False, reason="its plan can still be taken up there")
    return Verdict(found=found, may_go=True, reason="nobody works there any more")


def judged_mount(found: Found, *, is_used: bool) -> Verdict:
    """Judge the mount of a workspace whose plan is owned by nobody; taken up it mounts again."""
    reason = "an environment of its plan still runs" if is_used else "nobody works there any more"
    return Verdict(found=found, may_go=not is_used, reason=reason)


def judged_workspace(
    found: Found, state: PlanState, now: float, retention: Retention, *, is_used: bool
) -> Verdict:
    """Judge a workspace whose plan is owned by nobody else at this moment.

    `is_used`: an environment of the plan still runs.
    """
    if is_used:
        return Verdict(found=found, may_go=False, reason="an environment of its plan still runs")
    if found.name != state.plan_id:
        return Verdict(found=found, may_go=True, reason="it was made for one purpose only")
    if is_workspace_due(state, now, retention):
        return Verdict(found=found, may_go=True, reason="its plan has been finished for long")
    if state.workspace is None:
        return Verdict(found=found, may_go=True, reason="its plan has given it up")
    return Verdict(found=found, may_go=False, reason="its plan is kept")


def judged_checkpoints(found: Found, *, is_due: bool) -> Verdict:
    """Judge what the checkpoints of a plan name: it goes with the journal."""
    reason = "its plan has been at rest for long" if is_due else "its plan is kept"
    return Verdict(found=found, may_go=is_due, reason=reason)


def judged_temporary(found: Found, now: float, retention: Retention) -> Verdict:
    """Judge what a process has left half made; a demo's repository is kept as a workspace is."""
    is_unowned = found.name.startswith(OUTSIDE) and not OWNED.match(found.name)
    kept_s = DAY_S if is_unowned else GRACE_S  # of a process that is named it is known
    kept_s = retention.workspaces if found.name.startswith(DEMO) else kept_s
    if found.is_live or now - found.used < kept_s:
        return Verdict(found=found, may_go=False, reason="somebody may be at work there")
    return Verdict(found=found, may_go=True, reason="nobody works there any more")


def is_left_build(found: Found) -> bool:
    """Whether it is the folder of an image's build whose process is gone."""
    is_owned = found.name.startswith(BUILD) and OWNED.match(found.name) is not None
    return is_owned and found.family == Family.TEMPORARY and not found.is_live


def is_work(found: Found) -> bool:
    """Whether it holds what only a plan's calls have written: its tree, or its checkpoints."""
    is_tree = found.family == Family.WORKSPACE and found.name == found.plan_id
    return found.is_labelled and (is_tree or found.family == Family.CHECKPOINTS)


def judged_orphan(found: Found, now: float, *, was_removed: bool) -> Verdict:
    """Judge what belongs to one plan, and to none in this journal.

    `was_removed`: the journal says that the plan was kept long enough. Where it does not, the
    journal may have lost the plan: a backup of it needs the work.
    """
    if not found.is_labelled:
        reason = "it may be of another installation"
    elif is_work(found) and not was_removed:
        reason = UNKNOWN
    elif now - found.used < GRACE_S:
        reason = "it may just have been made"
    else:
        return Verdict(found=found, may_go=True, reason="its plan is in the journal no more")
    return Verdict(found=found, may_go=False, reason=reason)


def pooled_name(name: str) -> str:
    """Return the name of a tree that waits for a plan under a name of its own."""
    return f"{name}{POOLED}"


def is_pooled(found: Found) -> bool:
    """Whether a tree, or its mount, was made for the pool, and no plan has taken it."""
    return pooled_name(found.plan_id) == found.name


def judged_pooled(found: Found, now: float, *, is_used: bool) -> Verdict:
    """Judge a tree of the pool. Its environment lives as long as its engine, and a moment longer.

    `is_used`: that environment still runs.
    """
    if not found.is_labelled:
        return Verdict(found=found, may_go=False, reason="it may be of another installation")
    if is_used:
        return Verdict(found=found, may_go=False, reason="it waits for a plan")
    if now - found.used < START_S:
        return Verdict(found=found, may_go=False, reason="it may just have been made")
    return Verdict(found=found, may_go=True, reason="nobody can take it any more")


def store_key(repository: str) -> str:
    """Return the name of our folder for the repository at this path."""
    return hashlib.sha256(repository.encode("utf-8", "surrogateescape")).hexdigest()[:16]


__all__ = [
    "BUILD",
    "CACHES",
    "DAY_S",
    "DEMO",
    "FURNITURE",
    "GRACE_S",
    "OUTSIDE",
    "START_S",
    "UNKNOWN",
    "Family",
    "Found",
    "Removed",
    "Retention",
    "Verdict",
    "has_leftovers",
    "is_finished",
    "is_journal_due",
    "is_left_build",
    "is_named",
    "is_pooled",
    "is_under_way",
    "is_work",
    "is_workspace_due",
    "judged_cache",
    "judged_checkpoints",
    "judged_environment",
    "judged_furniture",
    "judged_mount",
    "judged_orphan",
    "judged_pooled",
    "judged_temporary",
    "judged_workspace",
    "named_by",
    "owner_of",
    "pooled_name",
    "store_key",
]
