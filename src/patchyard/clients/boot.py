"""Which boot of the machine this is: process numbers and unsynced files are of one boot alone."""

from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the name of this boot."""
    return BOOT_ID.read_text(encoding="ascii").strip()


__all__ = ["BOOT_ID", "boot_id"]
