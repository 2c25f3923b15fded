"""Finds a kernel for virtual machines, and the drivers that it needs as modules."""

import gzip
import lzma
import os
import platform
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from patchyard.domain.errors import EnvironmentUnavailable

DRIVERS = (
    *("virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci"),
    *("virtio_console", "virtio_blk"),
)
"""In the order they are loaded; each but the optional ones is a module or built in."""
OPTIONAL = ("virtio_pci_legacy_dev", "virtio_pci_modern_dev")  # not there before Linux 5.13
BUILT_IN = "ext4"
FOLDERS = ("drivers/virtio", "drivers/char", "drivers/block")
KERNEL = re.compile(r"vmlinuz-(?P<release>.+)")
PACKED = (".gz", ".xz")
CURE = (
    "as root: `apt install linux-image-cloud-amd64`. Without root: `mkdir guest && cd guest &&"
    " apt-get download $(apt-cache depends linux-image-cloud-amd64 | awk '/Depends:/ {print $2}')"
    " && dpkg-deb -x linux-image-*.deb . && agents resource add vm-image box --image .`, then"
    " `agents env check box`"
)


@dataclass(frozen=True, kw_only=True)
class GuestKernel:
    """One kernel."""

    path: Path
    release: str
    modules: tuple[Path, ...]  # in the order they are loaded


def find_kernel(root: Path) -> GuestKernel | None:
    """Return the best kernel in `root`/boot, None without one. Raises EnvironmentUnavailable.

    The best is a cloud kernel, the newest of them; else the one that runs here; else the newest.
    """
    boot = root / "boot"
    try:
        found = [KERNEL.fullmatch(path.name) for path in boot.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return None
    releases = [match["release"] for match in found if match]
    if not releases:
        return None
    release = max(releases, key=_rank)
    path = boot / f"vmlinuz-{release}"
    if not os.access(path, os.R_OK):
        raise EnvironmentUnavailable(f"the kernel {path} cannot be read", hint=CURE)
    return GuestKernel(path=path, release=release, modules=tuple(_modules(root, release)))


def _rank(release: str) -> tuple[bool, bool, list[int]]:
    numbers = [int(part) for part in re.findall(r"\d+", release)]
    return "cloud" in release, release == platform.release(), numbers


def _modules(root: Path, release: str) -> Iterable[Path]:
    places = (root / "lib/modules" / release, root / "usr/lib/modules" / release)
    folder = next((place for place in places if place.is_dir()), None)
    if folder is None:
        raise EnvironmentUnavailable(f"the kernel {release} has no modules", hint=CURE)
    built_in = _built_in(folder)
    if BUILT_IN not in built_in:
        raise EnvironmentUnavailable(
            f"the kernel {release} has {BUILT_IN} as a module only", hint=CURE
        )
    for name in DRIVERS:
        found = _module(folder / "kernel", name)
        if found is not None:
            yield found
        elif name not in built_in and name not in OPTIONAL:
            raise EnvironmentUnavailable(f"the kernel {release} has no {name}", hint=CURE)


def _built_in(folder: Path) -> set[str]:
    try:
        lines = (folder / "modules.builtin").read_text().splitlines()
    except FileNotFoundError:
        return set()
    return {Path(line).stem.replace("-", "_") for line in lines}


def _module(folder: Path, name: str) -> Path | None:
    for place in FOLDERS:
        for ending in (".ko", *(f".ko{packed}" for packed in PACKED)):
            path = folder / place / f"{name}{ending}"
            if path.is_file():
                return path
    return None


def content_of(module: Path) -> bytes:
    """Return a module as the kernel takes it. Raises EnvironmentUnavailable for a damaged one."""
    unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(module.suffix)
    try:
        data = module.read_bytes()
        return unpack(data) if unpack else data
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise EnvironmentUnavailable(
            f"{module} cannot be read: {error}", hint="install the kernel's package anew"
        ) from error


__all__ = ["CURE", "DRIVERS", "GuestKernel", "content_of", "find_kernel"]
