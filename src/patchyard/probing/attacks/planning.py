"""Writes while planning, where the workspace is only to be read."""

from patchyard.probing.attack import Attack, Call, Control, Group, Where
from patchyard.probing.evidence import workspace_changed


def _of(name: str, title: str, script: str, control: Control = Control.PLAIN) -> Attack:
    return Attack(
        name=f"planning-{name}",
        group=Group.PLANNING,
        title=title,
        script=script,
        evidence=workspace_changed,
        control=control,
        where=Where.PLANNING,
    )


def _tool(name: str, title: str, call: Call) -> Attack:
    return Attack(
        name=f"planning-{name}",
        group=Group.PLANNING,
        title=title,
        calls=(call,),
        evidence=workspace_changed,
        control_script="write",
        where=Where.PLANNING,
    )


PLANNED = "{inner}/planned"

ATTACKS = (
    _of("write", "write over a file", "write"),
    _of("create", "make a file", "create"),
    _of("delete", "delete a file", "delete"),
    _of("rename", "rename a file", "rename"),
    _of("link", "give a file a second name", "link"),
    _of("mode", "change a file's mode", "change_mode"),
    _of("times", "change a file's times", "change_times"),
    _of("truncate", "cut a file off", "truncate"),
    _of("descriptor", "open a descriptor again for writing", "reopen"),
    _of("mmap", "write through mapped memory", "map_memory"),
    _of("remount", "mount the workspace anew", "remount", Control.NAMESPACES),
    _of("bind", "mount the workspace elsewhere", "mount_over", Control.NAMESPACES),
    _tool(
        "tool-write",
        "let a tool write a file",
        Call(op="write_file", args={"path": PLANNED, "content": "written"}),
    ),
    _tool(
        "tool-replace",
        "let a tool replace text",
        Call(
            op="search_replace",
            args={"path": PLANNED, "old_string": "canary", "new_string": "written"},
        ),
    ),
    _tool(
        "tool-delete",
        "let a tool delete a file",
        Call(op="delete_file", args={"path": PLANNED}),
    ),
)

__all__ = ["ATTACKS", "PLANNED"]
