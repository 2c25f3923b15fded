"""What operations work with: the workspace, the loop, the processes and the settings."""

from __future__ import annotations

from .answers import Refusal
from .loop import Loop
from .paths import Workspace
from .processes import Children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .commands import Command
    from .loop import Timer
    from .mcp import Turn
    from .ranking import Index
    from .replicating import Replica
    from .serving import McpServer
    from .settings import Settings
    from .shells import Shell

MAX_JOBS = 64


class Room:
    """The toolbox's own state that operations share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.workspace = Workspace(settings.workspace)
        self.loop = Loop()
        self.children = Children(settings.rlimits, settings.offering)
        self.children.guarded = self.loop.guarded
        self.jobs: dict[str, Command] = {}
        self.running: set[Command] = set()  # jobs among them
        self.shells: dict[str, Shell] = {}
        self.servers: dict[str, McpServer] = {}  # of MCP, by name
        self.asking: dict[str, Turn] = {}  # their questions, by the call that each has settled
        self.stopped: set[int] = set()  # by `freeze`, until `thaw`
        self.thawing: Timer | None = None  # lets them go on when nobody does
        self.begun = 0  # calls so far
        self.index: Index | None = None  # of codebase_search, once it was asked
        self.replica: Replica | None = None  # where the workspace is a copy of one elsewhere

    def require_writable(self) -> None:
        """Raise Refusal where nothing may be written."""
        if self.settings.is_read_only:
            raise Refusal("READ_ONLY", "this environment reads only; nothing was written")

    def close(self) -> None:
        """Release the descriptors."""
        if self.index is not None:
            self.index.close()
        if self.replica is not None:
            self.replica.close()
        self.workspace.close()
        self.loop.close()


__all__ = ["MAX_JOBS", "Room"]
