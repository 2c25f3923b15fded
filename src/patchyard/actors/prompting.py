"""The words a model begins with: a system prompt from a data file, and the task."""

from importlib.resources import files
from string import Template

from patchyard.actors.surroundings import told
from patchyard.contracts.actor import Brief
from patchyard.domain.messages import Message, Speaker
from patchyard.domain.role import WRITING, Output

ROOM = 24_000  # bytes of the background, where nothing is known of the model


def opening(brief: Brief, *, room: int = ROOM) -> tuple[Message, Message]:
    """Return the system prompt and the task; both stay in every request.

    `room` is how many bytes the background of the task may take.
    """
    name = "strategize.md" if brief.phase == "strategize" else "execute.md"
    if brief.phase != "strategize" and brief.output not in WRITING:
        name = "answer.md" if brief.output == Output.ANSWER else "judge.md"
    prompt = files("patchyard.actors").joinpath("prompts", name).read_text(encoding="utf-8")
    system = Template(prompt).substitute(workspace=brief.workspace_path).strip()
    if brief.role:
        system = f"{system}\n\n{brief.role}"
    return (
        Message(speaker=Speaker.SYSTEM, text=system),
        Message(speaker=Speaker.USER, text=_task(brief, room)),
    )


def _task(brief: Brief, room: int) -> str:
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
    if brief.background is not None:
        parts.append(told(brief.background, room=room))
    return "\n\n".join(parts)


__all__ = ["ROOM", "opening"]
