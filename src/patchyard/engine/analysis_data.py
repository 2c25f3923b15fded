"""What programs are told of the analysis of a plan's task."""

from typing import Any

from patchyard.domain.analysis import TaskAnalysed
from patchyard.domain.codec import to_json


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


__all__ = ["analysis_data"]
