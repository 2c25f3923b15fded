"""Patchyard: a task-execution engine for coding agents."""

__all__: list[str] = []
