"""The source documents' names as thin façades over our parts: what other programs embed.

Shadow's factories (D3) with their operations; CHORUS's sandbox (C8), tasks (C15), models (C1, C3).
A name is loaded when it is first asked for: who needs the results alone loads no engine.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchyard.execution.cloning import CloneResult, TaskConfig
    from patchyard.execution.copying import CopyResult
    from patchyard.execution.engine import Engine
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
    from patchyard.execution.providers import (
        ConfiguredProvider,
        Message,
        ModelProvider,
        ProviderFactory,
        Speaker,
        StopReason,
        TaskAction,
        TaskRequest,
        TaskResponse,
        ToolSpec,
    )
    from patchyard.execution.requests import (
        Gate,
        LimitSettings,
        Output,
        ProviderConfig,
        Role,
        Task,
        TaskExecutionRequest,
    )
    from patchyard.execution.sandbox import Command, ExecutionSandbox, Inside
    from patchyard.execution.sandboxing import (
        EnvironmentLimits,
        Limits,
        Mount,
        NetworkSettings,
        SandboxConfig,
    )
    from patchyard.execution.tasks import TaskExecutionResult, execute_task
    from patchyard.execution.workspaces import (
        Health,
        PreparedWorkspace,
        WorkspaceManager,
        WorkspaceStatus,
    )

PLACES = {
    "CloneResult": "cloning",
    "CodePiece": "outcomes",
    "CodebaseSearchResult": "outcomes",
    "Command": "sandbox",
    "CommandResult": "outcomes",
    "ConfiguredProvider": "providers",
    "CopyResult": "copying",
    "DeleteFileResult": "outcomes",
    "DirectoryEntry": "outcomes",
    "Engine": "engine",
    "EnvironmentLimits": "sandboxing",
    "ExecutionSandbox": "sandbox",
    "Gate": "requests",
    "GrepMatch": "outcomes",
    "GrepSearchResult": "outcomes",
    "Health": "workspaces",
    "Inside": "sandbox",
    "LimitSettings": "requests",
    "Limits": "sandboxing",
    "ListDirectoryResult": "outcomes",
    "Message": "providers",
    "MockToolExecutor": "mocking",
    "MockWorkspaceManager": "mocking",
    "Mode": "modes",
    "ModelProvider": "providers",
    "Mount": "sandboxing",
    "NetworkSettings": "sandboxing",
    "Outcome": "outcomes",
    "Output": "requests",
    "PreparedWorkspace": "workspaces",
    "ProviderConfig": "requests",
    "ProviderFactory": "providers",
    "ReadFileResult": "outcomes",
    "Role": "requests",
    "SandboxConfig": "sandboxing",
    "SearchFilesResult": "outcomes",
    "SearchReplaceResult": "outcomes",
    "Speaker": "providers",
    "StopReason": "providers",
    "Task": "requests",
    "TaskAction": "providers",
    "TaskConfig": "cloning",
    "TaskExecutionRequest": "requests",
    "TaskExecutionResult": "tasks",
    "TaskRequest": "providers",
    "TaskResponse": "providers",
    "ToolExecutor": "executor",
    "ToolSpec": "providers",
    "WorkspaceManager": "workspaces",
    "WorkspaceStatus": "workspaces",
    "WriteFileResult": "outcomes",
    "create_tool_executor": "modes",
    "create_workspace_manager": "modes",
    "execute_task": "tasks",
}
"""In which module of this package each name lies."""


def __getattr__(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *PLACES})


__all__ = [
    "CloneResult",
    "CodePiece",
    "CodebaseSearchResult",
    "Command",
    "CommandResult",
    "ConfiguredProvider",
    "CopyResult",
    "DeleteFileResult",
    "DirectoryEntry",
    "Engine",
    "EnvironmentLimits",
    "ExecutionSandbox",
    "Gate",
    "GrepMatch",
    "GrepSearchResult",
    "Health",
    "Inside",
    "LimitSettings",
    "Limits",
    "ListDirectoryResult",
    "Message",
    "MockToolExecutor",
    "MockWorkspaceManager",
    "Mode",
    "ModelProvider",
    "Mount",
    "NetworkSettings",
    "Outcome",
    "Output",
    "PreparedWorkspace",
    "ProviderConfig",
    "ProviderFactory",
    "ReadFileResult",
    "Role",
    "SandboxConfig",
    "SearchFilesResult",
    "SearchReplaceResult",
    "Speaker",
    "StopReason",
    "Task",
    "TaskAction",
    "TaskConfig",
    "TaskExecutionRequest",
    "TaskExecutionResult",
    "TaskRequest",
    "TaskResponse",
    "ToolExecutor",
    "ToolSpec",
    "WorkspaceManager",
    "WorkspaceStatus",
    "WriteFileResult",
    "create_tool_executor",
    "create_workspace_manager",
    "execute_task",
]
