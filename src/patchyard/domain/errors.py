"""The tree of exceptions, grouped by what the catcher can do.

    PatchyardError            code, message, hint, retryable, details
    ├── UsageError            exit 2: mend the call (a name, a setting, a file)
    │   └── UnknownName       lists the right names and the nearest
    ├── StateRefusal          exit 3: the state does not allow it; look at the plan first
    │   ├── GuardRefused      a transition or precondition of the lifecycle
    │   ├── Conflict          somebody's newer work, or another owner
    │   │   ├── FencedOff     this process was taken for dead; its plan has another owner
    │   │   └── NameTaken     a living worker has that name
    │   ├── Outdated          a newer version has changed the database below this process
    │   ├── ReconciliationBlockedError  an invariant does not hold
    │   ├── ApprovalNeeded    nobody can be asked here
    │   └── PlanPaused        somebody paused the plan
    │       └── WorkerLeft    its worker was told to end; the next one goes on
    ├── Unavailable           exit 4: install, start or link what is missing
    │   ├── ContainerUnavailableError
    │   ├── EnvironmentUnavailable
    │   │   └── StartBroken     the place broke before its toolbox answered: start another
    │   ├── ModelUnavailable
    │   └── NoRoom
    ├── LimitReached          exit 5: raise the limit; what was done is kept
    └── WorkFailed            exit 1: the work itself went wrong
        ├── EnvironmentBroken     the place a call ran in is gone
        ├── ProofFailed           the gates do not pass on the result
        ├── ModelFailed           the provider answered with an error
        ├── ReviewRejected        the review asks for changes
        └── JournalBroken         stored data is not what was written

Expected failures of a tool (non-zero exit, missing file) are results, never one of these.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from patchyard.domain.nearness import near_names

NAMED_PATHS = 5  # paths that a message names
LISTED = 50  # names that a hint lists; what there is more is counted
QUOTED = 200  # characters of what somebody said that a message repeats


def listing(names: Sequence[str], *, most: int = LISTED) -> str:
    """Return names as a hint lists them: in the given order, and so many at most."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def named_paths(lost: Sequence[str]) -> str:
    """Return lost paths as a message names them; one that is empty stands for a folder."""
    return listing(lost, most=NAMED_PATHS) if all(lost) else "its folders"


def shortened(text: str) -> str:
    """Return what somebody said as a message repeats it: `QUOTED` characters at most."""
    if len(text) <= QUOTED:
        return text
    rest = f"… ({len(text):,} characters)"
    return text[: QUOTED - len(rest)] + rest


def quoted(said: object) -> str:
    """Return the same in quotation marks, where it is text."""
    return repr(shortened(said)) if isinstance(said, str) else shortened(repr(said))


class PatchyardError(Exception):
    """Something went wrong that Patchyard has a name for."""

    code = "error"
    exit_code = 1
    retryable = False
    default_hint = ""

    def __init__(
        self,
        message: str = "",
        *,
        hint: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.hint = hint or self.default_hint
        self.details = dict(details or {})
        super().__init__(self.message)


class UsageError(PatchyardError):
    """The call is not one that can be carried out; see the hint."""

    code = "usage"
    exit_code = 2


class UnknownName(UsageError):
    """No such name; the hint lists those there are."""

    code = "unknown_name"

    @classmethod
    def among(cls, what: str, name: str, known: Iterable[str]) -> "UnknownName":
        """Build the error for `name`, naming the nearest of `known` and all of them."""
        names = sorted(str(each) for each in known)
        near = near_names(name, names)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        return cls(
            f"unknown {what} {quoted(name)}.{guess}",
            hint=f"known: {listing(names) or 'none'}",
            details={"name": shortened(name), "known": names},
        )


class StateRefusal(PatchyardError):
    """The present state does not allow this."""

    code = "refused"
    exit_code = 3


class GuardRefused(StateRefusal):
    """The plan is not in a state from which this is allowed; `agents plan status` shows it."""

    code = "guard"


class Conflict(StateRefusal):
    """Somebody else's newer work is in the way; nothing was changed."""

    code = "conflict"


class FencedOff(Conflict):
    """This process gave no sign of life for too long; another one may carry the plan on."""

    code = "fenced_off"
    default_hint = "`agents plan watch` follows the plan; `agents plan resume` takes it back"


class NameTaken(Conflict):
    """A living worker has that name; give this one another."""

    default_hint = "give this one another name: `agents worker --name NAME`"


class Outdated(StateRefusal):
    """A newer version has changed the database below this process; it writes nothing more."""

    code = "outdated"
    default_hint = "start it again with the newer version; what it was at goes on there"


class ApprovalNeeded(StateRefusal):
    """An approval is needed and nobody can be asked here."""

    code = "approval_needed"


class PlanPaused(StateRefusal):
    """Somebody paused the plan; `agents plan resume` carries it on."""

    code = "paused"


class WorkerLeft(PlanPaused):
    """The worker was told to end; another one carries the plan on."""

    code = "worker_left"


class Unavailable(PatchyardError):
    """Something this needs is not there."""

    code = "unavailable"
    exit_code = 4


class EnvironmentUnavailable(Unavailable):
    """This kind of environment cannot start here; `agents doctor` shows the cause and the cure."""

    code = "environment_unavailable"


class StartBroken(EnvironmentUnavailable):
    """The environment broke before its toolbox answered. Nothing of a plan has run there."""

    retryable = True


class ContainerUnavailableError(EnvironmentUnavailable):
    """`container` was selected, and no container resource is linked to the project."""

    code = "container_unavailable"


class NoRoom(Unavailable):
    """Too little is free on the disk for another plan; what runs goes on."""

    code = "no_room"


class ModelUnavailable(Unavailable):
    """No model can be reached."""

    code = "model_unavailable"


class LimitReached(PatchyardError):
    """A limit of the plan was reached; what was done is kept."""

    code = "limit"
    exit_code = 5

    def __init__(
        self,
        message: str = "",
        *,
        limit_name: str,
        hint: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Take the limit's name, as it is set: `steps`, `budget.day_usd`; it is in `details`."""
        super().__init__(message, hint=hint, details={**(details or {}), "limit_name": limit_name})


class WorkFailed(PatchyardError):
    """The work failed."""

    code = "failed"


class EnvironmentBroken(WorkFailed):
    """The environment ended while it was needed."""

    code = "environment_broken"
    retryable = True


class ModelFailed(WorkFailed):
    """The model's provider answered with an error."""

    code = "model_failed"

    def __init__(
        self,
        message: str = "",
        *,
        hint: str = "",
        details: Mapping[str, Any] | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message, hint=hint, details=details)
        self.retryable = retryable


class ProofFailed(WorkFailed):
    """The gates do not pass on the result; the plan is constrained."""

    code = "validation_failed"


class ReviewRejected(WorkFailed):
    """A review is done, and asks for changes."""

    code = "review_rejected"


class ReconciliationBlockedError(StateRefusal):
    """An invariant does not hold, so the plan may not go on."""

    code = "reconciliation_blocked"


class JournalBroken(WorkFailed):
    """The journal holds something that was not written by this program."""

    code = "journal_broken"


__all__ = [
    "LISTED",
    "NAMED_PATHS",
    "QUOTED",
    "ApprovalNeeded",
    "Conflict",
    "ContainerUnavailableError",
    "EnvironmentBroken",
    "EnvironmentUnavailable",
    "FencedOff",
    "GuardRefused",
    "JournalBroken",
    "LimitReached",
    "ModelFailed",
    "ModelUnavailable",
    "NameTaken",
    "NoRoom",
    "Outdated",
    "PatchyardError",
    "PlanPaused",
    "ProofFailed",
    "ReconciliationBlockedError",
    "ReviewRejected",
    "StartBroken",
    "StateRefusal",
    "Unavailable",
    "UnknownName",
    "UsageError",
    "WorkFailed",
    "WorkerLeft",
    "listing",
    "named_paths",
    "quoted",
    "shortened",
]
