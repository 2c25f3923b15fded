"""What an architect decides: one record of the question, the choice and what follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchyard.domain.body import Body
from patchyard.domain.faults import kind_of
from patchyard.domain.role import Unusable

TEXT_CHARS = 8000
LEAST_OPTIONS = 2
_PARTS = ("title", "context", "decision", "consequences")


@dataclass(frozen=True, kw_only=True)
class Option:
    """A way that was thought of."""

    name: str
    reason: str = ""  # why it was taken or not


@dataclass(frozen=True, kw_only=True)
class DesignRecord:
    """One decision of design."""

    title: str
    context: str  # what makes the decision necessary
    decision: str
    consequences: str  # what gets easier and what harder
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DesignRecorded:
    """A decision of design is written down: an event."""

    title: str
    body: Body = field(default_factory=Body)  # the DesignRecord


def read_record(said: Mapping[str, Any]) -> DesignRecord:
    """Return the record that a finish call states. Raises Unusable."""
    texts = [said.get(part) for part in _PARTS]
    for part, text in zip(_PARTS, texts, strict=True):
        if text is not None and not isinstance(text, str):
            raise Unusable(f"`{part}` must be text, not {kind_of(text)}")
        if not text or not text.strip():
            raise Unusable(f"`{part}` is missing: it must be text")
    rows = said.get("options") or []
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise Unusable("`options` must be a list of objects with name and reason")
    named = [(str(row.get("name") or ""), str(row.get("reason") or "")) for row in rows]
    options = [Option(name=name[:200], reason=why[:2000]) for name, why in named if name]
    if len(options) < LEAST_OPTIONS:
        raise Unusable("`options` must name at least two ways, the chosen one among them")
    title, context, decision, consequences = (str(text).strip()[:TEXT_CHARS] for text in texts)
    return DesignRecord(
        title=" ".join(title.split())[:200],
        context=context,
        decision=decision,
        consequences=consequences,
        options=tuple(options),
    )


def markdown_of(record: DesignRecord) -> str:
    """Return the record as a page."""
    options = [f"- {': '.join(filter(None, (each.name, each.reason)))}" for each in record.options]
    parts = [
        f"# {record.title}",
        f"## Context\n\n{record.context}",
        "## Options\n\n" + "\n".join(options),
        f"## Decision\n\n{record.decision}",
        f"## Consequences\n\n{record.consequences}",
    ]
    return "\n\n".join(parts) + "\n"


RECORD_SCHEMA: Mapping[str, Any] = {
    "title": {"type": "string", "description": "the decision in one line"},
    "context": {"type": "string", "description": "what makes the decision necessary"},
    "options": {
        "type": "array",
        "description": "the ways there are, two at least, the chosen one among them",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "reason": {"type": "string"}},
            "required": ["name", "reason"],
        },
    },
    "decision": {"type": "string"},
    "consequences": {"type": "string", "description": "what gets easier and what harder"},
}

__all__ = [
    "LEAST_OPTIONS",
    "RECORD_SCHEMA",
    "TEXT_CHARS",
    "DesignRecord",
    "DesignRecorded",
    "Option",
    "markdown_of",
    "read_record",
]
