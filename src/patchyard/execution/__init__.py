"""The source documents' names as thin façades over our parts: what other programs embed.

Shadow's factories (D3) with their operations; CHORUS's sandbox (C8), tasks (C15), models (C1, C3).
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
from patchyard.execution.tasks import (
    ModelProvider,
    ProviderFactory,
    TaskExecutionRequest,
    TaskExecutionResult,
    execute_task,
)
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
    "ModelProvider",
    "Outcome",
    "PreparedWorkspace",
    "ProviderFactory",
    "ReadFileResult",
    "SandboxConfig",
    "SearchFilesResult",
    "SearchReplaceResult",
    "TaskConfig",
    "TaskExecutionRequest",
    "TaskExecutionResult",
    "ToolExecutor",
    "WorkspaceManager",
    "WorkspaceStatus",
    "WriteFileResult",
    "create_tool_executor",
    "create_workspace_manager",
    "execute_task",
]
