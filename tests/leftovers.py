"""What a session of the suite leaves on the machine: overlays of its own, wherever they are."""

import os
import subprocess
from pathlib import Path

from patchyard.clients.mounts import unmount

__all__ = ["left_outside", "overlays_of"]


def _plain(text: str) -> str:
    """Take the octal escapes of mountinfo back."""
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, character)
    return text


def overlays_of(folder: Path, mountinfo: str) -> list[Path]:
    """Return where overlays are mounted that lie below `folder` or are made of what does."""
    prefix = f"{folder}/"
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, rest = after.partition(" ")
        target = _plain(before.split(" ")[4])
        options = _plain(rest).replace("=", ":").replace(",", ":").split(":")
        if kind == "overlay" and any(place.startswith(prefix) for place in (target, *options)):
            found.append(Path(target))
    return found


def left_outside(folder: Path) -> list[Path]:
    """Unmount every overlay of what lies below `folder`; return those mounted elsewhere."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    found = overlays_of(folder, mounts)
    if os.geteuid() == 0:
        for place in reversed(found):
            unmount(place)
    outside = [place for place in found if folder not in place.parents]
    if os.geteuid() == 0:
        for place in outside:
            subprocess.run(["rm", "-rf", "--one-file-system", str(place.parent)], check=True)
    return outside
