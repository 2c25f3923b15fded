"""What the use cases work with: one adapter for each seam, put together by assembly.py."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from patchyard.contracts.actor import Actor, Casting
from patchyard.contracts.analyst import Analyst
from patchyard.contracts.blobs import BlobSpaces
from patchyard.contracts.bus import Bus
from patchyard.contracts.claims import Claims
from patchyard.contracts.clock import Clock
from patchyard.contracts.environment import Environment
from patchyard.contracts.file_times import FileTimes
from patchyard.contracts.gateway import Gateways
from patchyard.contracts.handover import HandOver
from patchyard.contracts.inspection import Inspection
from patchyard.contracts.layers import Layers
from patchyard.contracts.leftovers import Adopting, Keeper, OfPlans
from patchyard.contracts.pins import Pins
from patchyard.contracts.pool import Pool
from patchyard.contracts.pruning import Pruning
from patchyard.contracts.queue import Crew, Queue
from patchyard.contracts.room import Room
from patchyard.contracts.subjects import Subjects
from patchyard.contracts.tool import Tool
from patchyard.contracts.trees import Trees
from patchyard.contracts.validator import ReportReader, Scanner
from patchyard.contracts.workspace import CheckpointingWorkspaces
from patchyard.domain.entrusted import Lookup
from patchyard.domain.environment import ExecutionEnvironment, no_such_kind
from patchyard.domain.gates import Reads
from patchyard.domain.mcp import ListedTool, McpServer
from patchyard.domain.role import Role
from patchyard.engine.ledger import Store


@dataclass(frozen=True, kw_only=True)
class Equipment:
    """All adapters of one engine."""

    store: Store
    claims: Claims
    queue: Queue
    crew: Crew  # this process as a worker
    bus: Bus  # to other processes of this installation
    clock: Clock
    trees: Trees
    subjects: Subjects
    studying: Callable[[], Analyst]  # loaded by the first who studies a base; always the same
    workspaces: CheckpointingWorkspaces
    file_times: FileTimes  # of a tree
    blobs: BlobSpaces  # what checkpoints keep
    layers: Layers
    handing_over: Callable[[], HandOver]  # loaded by the first who hands over; always the same
    environments: Mapping[ExecutionEnvironment, Environment]
    tools: Callable[[str], Mapping[str, Tool]]  # by the workspace's path inside
    inquiry: Callable[[Sequence[Role]], Tool]  # a question to one of these
    served: Callable[[McpServer, ListedTool], Tool]  # a tool of an MCP server
    pins: Pins  # how the tools of MCP servers were when they were first seen
    gateways: Gateways
    reader: Callable[[Reads], ReportReader]  # of the reports of gates
    scanner: Callable[[Reads], Scanner]  # for gates without a command
    keepers: Sequence[Keeper]  # of what is on the machine of ours
    pruning: Pruning
    inspection: Inspection  # of the journal
    room: Room
    variable: Lookup  # of the engine, by name: for servers that are entrusted with it
    vacant: Callable[[], str]  # an empty folder that agents may enter
    actor: Callable[[Casting], Awaitable[Actor]]  # raises UnknownName, ModelUnavailable
    pool: Pool | None = None  # of the process that lives longer than one plan

    @cached_property
    def analyst(self) -> Analyst:
        """What bases are studied by."""
        return self.studying()

    @cached_property
    def handover(self) -> HandOver:
        """What change sets are handed over by."""
        return self.handing_over()

    @cached_property
    def adopting(self) -> Sequence[Adopting]:
        """The keepers that can be told of a new owner."""
        return tuple(keeper for keeper in self.keepers if isinstance(keeper, Adopting))

    @cached_property
    def of_plans(self) -> Sequence[OfPlans]:
        """The keepers of what only a plan's owner may end."""
        return tuple(keeper for keeper in self.keepers if isinstance(keeper, OfPlans))

    def environment(self, kind: ExecutionEnvironment) -> Environment:
        """Return the adapter for `kind`. Raises UnknownName when there is none yet."""
        if kind not in self.environments:
            raise no_such_kind(str(kind))
        return self.environments[kind]


__all__ = ["Equipment"]
