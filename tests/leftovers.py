"""What a session of the suite leaves on the machine: mounted workspaces of its own homes."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from patchyard.clients.mounts import unmount
from patchyard.workspaces.selection import STATE, plan_folder

__all__ = ["left_outside", "mounted_below"]

DEPTH = "6"  # how far below the suite's folder a test keeps its home


def mounted_below(folders: Iterable[Path], mountinfo: str) -> list[Path]:
    """Return where something is mounted below one of the folders."""
    wanted = set(folders)
    targets = [Path(_plain(line.split(" ")[4])) for line in mountinfo.splitlines()]
    return [target for target in targets if wanted.intersection(target.parents)]


def _plain(text: str) -> str:
    """Take the octal escapes of mountinfo back."""
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, character)
    return text


def left_outside(folder: Path) -> list[Path]:
    """Unmount and remove what the homes below `folder` left; return what was not below it."""
    if os.geteuid() != 0:
        return []  # an ordinary user's workspaces lie in the home, and nothing is mounted
    find = ["find", str(folder), "-xdev", "-maxdepth", DEPTH, "-name", "patchyard.db", "-print0"]
    found = subprocess.run(find, check=False, capture_output=True).stdout
    homes = [Path(os.fsdecode(raw)).parent for raw in found.split(b"\0")[:-1]]
    outside = [place for place in map(plan_folder, homes) if place.parent == STATE]
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    for target in mounted_below([folder, *outside], mounts):
        unmount(target)
    left = [place for place in outside if place.is_dir() and any(place.iterdir())]
    for place in outside:
        subprocess.run(["rm", "-rf", "--one-file-system", str(place)], check=True)
    return left
