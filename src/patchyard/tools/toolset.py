"""The tools a model is given, by name."""

from collections.abc import Callable, Mapping

from patchyard.contracts.tool import Tool
from patchyard.tools import (
    codebase_search,
    delete_file,
    execute_command,
    grep_search,
    jobs,
    list_directory,
    read_file,
    read_output,
    search_files,
    search_replace,
    write_file,
)

NINE: Mapping[str, Callable[[str], Tool]] = {
    "read_file": read_file.tool,
    "write_file": write_file.tool,
    "delete_file": delete_file.tool,
    "search_replace": search_replace.tool,
    "list_directory": list_directory.tool,
    "search_files": search_files.tool,
    "grep_search": grep_search.tool,
    "codebase_search": codebase_search.tool,
    "execute_command": execute_command.tool,
}

BESIDES: Mapping[str, Callable[[str], Tool]] = {
    "job_output": jobs.output_tool,
    "job_kill": jobs.kill_tool,
    "read_output": read_output.tool,
}


def toolset(workspace: str) -> dict[str, Tool]:
    """Return the nine tools (D8) and what they need beside them.

    `workspace` is the absolute path of the work tree as it is seen inside the environment.
    """
    return {name: build(workspace) for name, build in {**NINE, **BESIDES}.items()}


__all__ = ["BESIDES", "NINE", "toolset"]
