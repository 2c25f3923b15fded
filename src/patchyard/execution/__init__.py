"""The source documents' names as thin façades over our parts: what other programs embed.

Shadow's factories (D3) and their operations, and CHORUS's sandbox (C8).
"""

from patchyard.execution.cloning import CloneResult, TaskConfig
from patchyard.execution.copying import CopyResult
from patchyard.execution.executor import ToolExecutor
from patchyard.execution.mocking import MockToolExecutor, MockWorkspaceManager
from patchyard.execution.modes import Mode, create_tool_executor, create_workspace_manager
from patchyard.execution.outcomes import (
    CodebaseSearchResult,
    CodePiece,
    CommandResult,
    DeleteFileResult,
    DirectoryEntry,
    GrepMatch,
    GrepSearchResult,
    ListDirectoryResult,
    Outcome,
    ReadFileResult,
    SearchFilesResult,
    SearchReplaceResult,
    WriteFileResult,
)
from patchyard.execution.sandbox import Command, ExecutionSandbox, Inside, SandboxConfig
from patchyard.execution.workspaces import (
    Health,
    PreparedWorkspace,
    WorkspaceManager,
    WorkspaceStatus,
)

__all__ = [
    "CloneResult",
    "CodePiece",
    "CodebaseSearchResult",
    "Command",
    "CommandResult",
    "CopyResult",
    "DeleteFileResult",
    "DirectoryEntry",
    "ExecutionSandbox",
    "GrepMatch",
    "GrepSearchResult",
    "Health",
    "Inside",
    "ListDirectoryResult",
    "MockToolExecutor",
    "MockWorkspaceManager",
    "Mode",
    "Outcome",
    "PreparedWorkspace",
    "ReadFileResult",
    "SandboxConfig",
    "SearchFilesResult",
    "SearchReplaceResult",
    "TaskConfig",
    "ToolExecutor",
    "WorkspaceManager",
    "WorkspaceStatus",
    "WriteFileResult",
    "create_tool_executor",
    "create_workspace_manager",
]
