"""Patchyard: a task-execution engine for coding agents.

`Engine` is what programs embed; it is loaded when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchyard.execution.engine import Engine


def __getattr__(name: str) -> Any:
    if name != "Engine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from patchyard.execution.engine import Engine  # noqa: PLC0415 - by the first who asks

    globals()[name] = Engine
    return Engine


def __dir__() -> list[str]:
    return sorted({*globals(), "Engine"})


__all__ = ["Engine"]
