"""Other processes, and memory that is shared with them."""

from patchyard.probing.attack import Attack, Control, Evidence, Group
from patchyard.probing.evidence import killed, limits_changed, said, told


def _on_victim(name: str, title: str, script: str, evidence: Evidence) -> Attack:
    return Attack(
        name=name,
        group=Group.PROCESSES,
        title=title,
        script=script,
        evidence=evidence,
        has_victim=True,
        control=Control.AGENT,
    )


ATTACKS = (
    _on_victim("process-killed", "kill another process", "send_signal", killed),
    _on_victim("process-traced", "trace another process", "trace", said),
    _on_victim("memory-by-call", "copy from another's memory", "read_memory", told),
    _on_victim("memory-by-file", "read another's memory as a file", "read_memory_file", told),
    _on_victim("descriptor-taken", "take another's open file", "take_descriptor", told),
    _on_victim("limits-changed", "change another's limits", "change_limits", limits_changed),
    _on_victim("shared-memory", "attach shared memory (System V)", "shared_memory", told),
    _on_victim("message-queue", "take a message from a queue", "message_queue", told),
    _on_victim("shared-file", "read shared memory by its name (POSIX)", "shared_file", told),
)

__all__ = ["ATTACKS"]
