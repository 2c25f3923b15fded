"""The seam to providers of others (C1): what a program implements and brings along.

One turn of a task in, one answer out. The engine drives: it carries out the actions, proves the
result, counts and bounds. A provider knows nothing of files, walls or gates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from patchyard.domain.messages import Message, StopReason
from patchyard.domain.tooling import ToolSpec

IMAGES = "images"  # capability: it can be shown pictures
WINDOW = "context:"  # capability, a number of tokens after it: what fits into one request


@dataclass(frozen=True, kw_only=True)
class TaskAction:
    """One tool that a provider wants to be used."""

    name: str  # as of TaskRequest.tools
    arguments: Mapping[str, Any] | str = field(default_factory=dict)  # text: JSON as a model wrote
    id: str = ""  # answered with the same; empty: the engine numbers it


@dataclass(frozen=True, kw_only=True)
class TaskRequest:
    """One turn of a task: what was said so far, and what may be done next."""

    messages: tuple[Message, ...]  # the first is the system's; results of actions come as `tool`
    tools: tuple[ToolSpec, ...] = ()  # that an answer may name; `finish` ends a phase
    model: str = ""  # what stands after `PROVIDER:`
    task: str = ""  # the task's text, as the user wrote it
    role: str = ""  # of who works on it, such as developer
    purpose: str = ""  # strategize, execute, sampling (for an MCP server); empty: none of a plan
    turn: int = 0  # answers given before in this conversation
    max_output_tokens: int | None = None  # that the answer may have; None: the provider's default
    temperature: float | None = None  # None: the provider's default


@dataclass(frozen=True, kw_only=True)
class TaskResponse:
    """What a provider answers to one turn."""

    text: str = ""
    actions: tuple[TaskAction, ...] = ()
    stop: StopReason = StopReason.DONE  # LENGTH and FILTERED where the answer was cut off
    input_tokens: int | None = None  # None: counted from sizes
    output_tokens: int | None = None  # likewise
    usd: float | None = None  # what it cost; None: by the price table, or not known
    model: str = ""  # the name that answered; empty: the one that was asked


@runtime_checkable
class ModelProvider(Protocol):
    """A provider of models. All but `execute_task` answers at once.

    Used within one event loop, by several plans at the same time. What it returns is checked; what
    it raises beside ModelFailed (with `retryable`) and ModelUnavailable ends the request by name.
    """

    async def execute_task(self, request: TaskRequest) -> TaskResponse:
        """Answer one turn. Never retries by itself; cancelling it ends the request.

        Raises ModelFailed, ModelUnavailable; an OSError counts as one that may pass.
        """
        ...

    def supports_tools(self) -> bool:
        """Whether it reads `TaskRequest.tools`; where not, tools are put into words."""
        ...

    def supports_mcp(self) -> bool:
        """Whether tools of MCP servers may be among them; where not, they are put into words."""
        ...

    def get_capabilities(self) -> Sequence[str]:
        """Return what it can: IMAGES, `context:TOKENS`, and words of its own."""
        ...


METHODS = ("execute_task", "supports_tools", "supports_mcp", "get_capabilities")


@runtime_checkable
class Closing(Protocol):
    """Extension: a provider that holds something. Who made it closes it."""

    async def close(self) -> None:
        """Free what it holds. Called once."""
        ...


__all__ = [
    "IMAGES",
    "METHODS",
    "WINDOW",
    "Closing",
    "ModelProvider",
    "TaskAction",
    "TaskRequest",
    "TaskResponse",
]
