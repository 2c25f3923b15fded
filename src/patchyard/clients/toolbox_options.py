"""What a toolbox is started with: its options, and the command line that starts one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import patchyard.toolbox

TOOLBOX_FOLDER = Path(patchyard.toolbox.__file__).parent
"""What an environment mounts, read-only, under the name `toolbox`."""

BOOTSTRAP = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from toolbox.server import main; sys.exit(main(sys.argv[2]))"
)


@dataclass(frozen=True, kw_only=True)
class ToolboxOptions:
    """What a toolbox is started with. It stands in a command line, which all users can read.

    So variables are none of it: they come over the socket, by the first connection.
    """

    listen_fd: int  # listening Unix socket that it inherits, or has passed
    workspace: str  # absolute path of the work tree as seen inside
    uid: int | None = None  # user to become; None: stay
    gid: int | None = None  # group to become; None: the number of the user
    grace_s: float = 60.0  # how long it lives without an engine
    output_bytes: int = 16 * 1024 * 1024  # kept of a command, per stream
    rlimits: Mapping[str, int] = field(default_factory=dict)  # by RLIMIT name
    is_read_only: bool = False  # refuse the operations that write
    has_files_alone: bool = False  # refuse all but operations on files: nothing is started there
    is_machine: bool = False  # whether it has a kernel of its own, which counts for it alone
    is_grouped: bool = False  # whether the control group it is in is its own, and shown to it
    listen_from: str = ""  # socket inside that passes the listening one; empty: inherited
    is_piped: bool = False  # its standard streams take the place of the socket
    seccomp: str = ""  # filter as BPF, in base 64; empty: none of its own
    replica: str = ""  # where a replica can be written to, or PASSED; empty: at its path


def settings_text(options: ToolboxOptions) -> str:
    """Return the options as a toolbox reads them."""
    given = {name: getattr(options, name) for name in options.__dataclass_fields__}
    return json.dumps({**given, "rlimits": dict(options.rlimits)})


def bootstrap(parent: str, options: ToolboxOptions) -> list[str]:
    """Return what follows a Python's path to start a toolbox from `parent`/toolbox."""
    return ["-I", "-S", "-B", "-c", BOOTSTRAP, parent, settings_text(options)]


def toolbox_command(python: str, parent: str, options: ToolboxOptions) -> list[str]:
    """Return the command that starts a toolbox by `python`; `parent` holds the folder `toolbox`."""
    return [python, *bootstrap(parent, options)]


__all__ = [
    "BOOTSTRAP",
    "TOOLBOX_FOLDER",
    "ToolboxOptions",
    "bootstrap",
    "settings_text",
    "toolbox_command",
]
