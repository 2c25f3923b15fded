"""Files outside the workspace, devices, settings of the kernel."""

from patchyard.probing.attack import Attack, Call, Group, Order
from patchyard.probing.evidence import changed, device_made, said, told

READ_LINK = Call(op="read_file", args={"path": "{inner}/link"})
REPLACE = {"path": "{inner}/out/secret", "old_string": "canary", "new_string": "replaced"}
RACES = 400

ATTACKS = (
    Attack(
        name="file-by-path",
        group=Group.FILES,
        title="read a file outside by its path",
        script="by_path",
        evidence=told,
    ),
    Attack(
        name="file-by-parent",
        group=Group.FILES,
        title="read a file outside by a path of `..`",
        script="by_parent",
        evidence=told,
    ),
    Attack(
        name="file-by-symlink",
        group=Group.FILES,
        title="read a file outside through a symbolic link",
        script="by_link",
        evidence=told,
    ),
    Attack(
        name="file-by-hard-link",
        group=Group.FILES,
        title="give a file outside a second name in the workspace",
        script="by_hard_link",
        evidence=told,
    ),
    Attack(
        name="file-overwritten",
        group=Group.FILES,
        title="write over a file outside",
        script="overwrite",
        evidence=changed,
    ),
    Attack(
        name="file-deleted",
        group=Group.FILES,
        title="delete a file outside",
        script="delete",
        evidence=changed,
    ),
    Attack(
        name="file-added",
        group=Group.FILES,
        title="put a file into a folder outside",
        script="add",
        evidence=changed,
    ),
    Attack(
        name="file-by-proc-root",
        group=Group.FILES,
        title="read through the root or the folder of another process",
        script="through_roots",
        evidence=told,
        has_victim=True,
    ),
    Attack(
        name="file-by-proc-fd",
        group=Group.FILES,
        title="read through a descriptor of another process",
        script="through_descriptors",
        evidence=told,
        has_victim=True,
    ),
    Attack(
        name="file-by-handle",
        group=Group.FILES,
        title="open a file by the number of its inode",
        script="by_handle",
        evidence=told,
    ),
    Attack(
        name="file-by-leaked-descriptor",
        group=Group.FILES,
        title="go out through a folder that the engine has open",
        script="leaked_descriptor",
        evidence=told,
        options={"leaks": True},
    ),
    Attack(
        name="device-opened",
        group=Group.FILES,
        title="open a device of the machine",
        script="open_device",
        evidence=said,
    ),
    Attack(
        name="device-made",
        group=Group.FILES,
        title="make a device and open it",
        script="make_device",
        evidence=device_made,
    ),
    Attack(
        name="kernel-setting",
        group=Group.FILES,
        title="open a setting below /proc/sys for writing",
        script="open_kernel_setting",
        evidence=said,
    ),
    Attack(
        name="sys-setting",
        group=Group.FILES,
        title="open a setting below /sys for writing",
        script="open_sys_setting",
        evidence=said,
    ),
    Attack(
        name="tool-reads-path",
        group=Group.FILES,
        title="let a file tool read outside by an absolute path and by `..`",
        calls=(
            Call(op="read_file", args={"path": "{secret}"}),
            Call(op="read_file", args={"path": "../../../../../../../..{secret}"}),
        ),
        evidence=told,
        control_script="naive_tool",
    ),
    Attack(
        name="tool-reads-link",
        group=Group.FILES,
        title="let a file tool read outside through links",
        script="make_links",
        calls=(READ_LINK, Call(op="read_file", args={"path": "{inner}/out/secret"})),
        evidence=told,
        control_script="naive_tool",
    ),
    Attack(
        name="tool-searches-link",
        group=Group.FILES,
        title="let a search follow a link to the outside",
        script="make_links",
        calls=(Call(op="grep_search", args={"pattern": "canary", "path": "{inner}/out"}),),
        evidence=told,
        control_script="naive_tool",
    ),
    Attack(
        name="tool-writes-link",
        group=Group.FILES,
        title="let a file tool write and delete outside through a link",
        script="make_links",
        calls=(
            Call(op="write_file", args={"path": "{inner}/out/secret", "content": "overwritten"}),
            Call(op="write_file", args={"path": "{secret}", "content": "overwritten"}),
            Call(op="search_replace", args=REPLACE),
            Call(op="delete_file", args={"path": "{inner}/out/secret"}),
        ),
        evidence=changed,
        control_script="naive_writing_tool",
    ),
    Attack(
        name="tool-races-link",
        group=Group.FILES,
        title="swap a folder for a link while a file tool opens it",
        script="flip",
        calls=(Call(op="read_file", args={"path": "{inner}/turn/secret"}, repeat=RACES),),
        order=Order.BESIDE,
        evidence=told,
        control_script="naive_racing_tool",
    ),
    Attack(
        name="command-in-folder-outside",
        group=Group.FILES,
        title="run a command in a folder outside",
        calls=(
            Call(op="execute_command", args={"command": "cat secret", "cwd": "{folder}"}),
            Call(op="execute_command", args={"command": "cat secret", "cwd": "{inner}/out"}),
        ),
        script="make_links",
        evidence=told,
        control_script="naive_tool",
    ),
)

__all__ = ["ATTACKS", "RACES", "READ_LINK", "REPLACE"]
