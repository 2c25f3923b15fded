"""Processes of this machine by the words that they were started with."""

from patchyard.clients.process import all_processes
from patchyard.toolbox.ending import started_with

__all__ = ["started_as"]


def started_as(*words: str) -> list[int]:
    """Return the ids of the processes that were started with just these words."""
    said = [*(word.encode() for word in words), b""]
    return [each.pid for each in all_processes() if started_with(each.pid, "cmdline") == said]
