"""The words a model begins with: a system prompt from a data file, and the task."""

from importlib.resources import files
from string import Template

from patchyard.contracts.actor import Brief
from patchyard.domain.messages import Message, Speaker
from patchyard.domain.role import WRITING, Output


def opening(brief: Brief) -> tuple[Message, Message]:
    """Return the system prompt and the task; both stay in every request."""
    name = "strategize.md" if brief.phase == "strategize" else "execute.md"
    if brief.phase != "strategize" and brief.output not in WRITING:
        name = "answer.md" if brief.output == Output.ANSWER else "judge.md"
    prompt = files("patchyard.actors").joinpath("prompts", name).read_text(encoding="utf-8")
    system = Template(prompt).substitute(workspace=brief.workspace_path).strip()
    if brief.role:
        system = f"{system}\n\n{brief.role}"
    return (
        Message(speaker=Speaker.SYSTEM, text=system),
        Message(speaker=Speaker.USER, text=_task(brief)),
    )


def _task(brief: Brief) -> str:
    parts = [f"# Task\n\n{brief.task.strip()}"]
    parts += [
        f"# {title}\n\n" + "\n".join(f"- {line}" for line in lines)
        for title, lines in (
            ("Done when", brief.definition_of_done),
            ("Must stay true", brief.invariants),
            ("The proof runs", tuple(f"`{command}`" for command in brief.validation)),
            ("What commands can reach", brief.network),
        )
        if lines
    ]
    if brief.subject:
        parts.append(f"# The change this is about\n\n{brief.subject}")
    if brief.strategy:
        parts.append(f"# The plan\n\n{brief.strategy.strip()}")
    if brief.findings:
        parts.append("# What came of an earlier attempt\n\n" + "\n\n".join(brief.findings))
    return "\n\n".join(parts)


__all__ = ["opening"]
