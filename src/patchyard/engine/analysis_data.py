"""What programs are told of a plan's task: its analysis, and what the strategy says of it."""

from typing import Any

from patchyard.domain.analysis import Complexity, TaskAnalysed, TaskAnalysis, TaskKind
from patchyard.domain.assessing import TaskAssessed
from patchyard.domain.codec import in_full, to_json
from patchyard.domain.state import PlanState


def analysis_data(found: TaskAnalysed | None, *, map_tokens: int) -> dict[str, Any] | None:
    """Return it JSON-ready; None before it was made, and for actors that read nothing of it."""
    if found is None:
        return None
    task, context = found.analysis, found.context
    return {
        "kind": str(task.kind),
        "because": list(task.because),
        "complexity": str(task.complexity),
        "figures": dict(task.figures),
        "requirements": list(task.requirements),
        "named": list(task.named),
        "files": context.files,
        "bytes": context.bytes,
        "languages": [to_json(each) for each in context.languages],
        "tests": list(context.tests),
        "test_files": context.test_files,
        "frameworks": list(context.frameworks),
        "guides": list(context.guides),
        "owners": [
            {"pattern": each.pattern, "owners": list(each.owners), "paths": list(each.paths)}
            for each in found.owners
        ],
        "map": {"tokens": map_tokens, "symbols": found.symbols, "left_out": found.left_out},
        "is_cached": found.is_cached,
        "seconds": found.seconds,
        "problem": found.problem,
    }


def assessment_data(state: PlanState) -> dict[str, Any] | None:
    """Return kind and complexity with who says each; None where no model thinks.

    What the strategy says goes before the words of the task; `by` is null where neither does.
    """
    found, said = state.analysed, state.assessed
    if found is None and said is None:
        return None
    guessed = found.analysis if found is not None else TaskAnalysis()
    made = said or TaskAssessed()
    return {
        "kind": str(made.kind or guessed.kind),
        "kind_by": _by(made.kind, guessed.kind),
        "complexity": str(made.complexity or guessed.complexity),
        "complexity_by": _by(made.complexity, guessed.complexity),
        "proposed_role": made.role or None,
        "limits": None if made.limits is None else in_full(made.limits),
    }


def _by(said: TaskKind | Complexity | None, guessed: TaskKind | Complexity) -> str | None:
    if said is not None:
        return "strategy"
    return None if str(guessed) == TaskKind.UNKNOWN else "words"


__all__ = ["analysis_data", "assessment_data"]
