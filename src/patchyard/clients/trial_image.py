"""An image of nothing but links and empty folders, to try a container engine out with.

This machine's own programs are mounted over it, read-only: so a container can really be started
where there is no image yet and no registry.
"""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path

from patchyard.clients.docker import ContainerEngine
from patchyard.clients.local_images import ARCHITECTURES
from patchyard.domain.environment import Mount
from patchyard.domain.ids import is_ulid, time_ms

NAME = "patchyard-trial"
TRIAL_MS = 3_600_000  # a trial takes seconds, and an attack on a kind some minutes
PLACES = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


def trial_image(own: str) -> tuple[str, bytes]:
    """Return the name of the image for this machine, and its archive as engines load it.

    The name is of one trial alone, `own`: whoever takes it away takes it from nobody else.
    """
    layer = _archive({**dict.fromkeys(name for name in PLACES if Path(name).is_dir()), **_links()})
    machine = platform.machine()
    config = json.dumps(
        {
            "architecture": ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "config": {"Env": ["PATH=/usr/bin:/bin"]},
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"],
            },
        }
    ).encode()
    name = f"{NAME}:{own.lower()}"
    listed = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    parts = {
        "manifest.json": json.dumps(listed).encode(),
        "config.json": config,
        "layer.tar": layer,
    }
    return name, _archive(parts)


async def remove_left(engine: ContainerEngine, own: str) -> None:
    """Take away the images that killed trials have left, as seen by the trial `own`."""
    oldest = time_ms(own) - TRIAL_MS
    for name in await engine.names(NAME):
        trial = name.partition(":")[2].upper()
        if is_ulid(trial) and time_ms(trial) < oldest:
            await engine.remove_image(name)


def trial_mounts() -> tuple[Mount, ...]:
    """Return what of this machine lies over the image."""
    found = [name for name in PLACES if Path(name).is_dir() and not Path(name).is_symlink()]
    return tuple(Mount(source=name, target=name) for name in found)


def _links() -> Mapping[str, str]:
    return {name: str(Path(name).readlink()) for name in PLACES if Path(name).is_symlink()}


def _archive(entries: Mapping[str, bytes | str | None]) -> bytes:
    """Return a tar of files (bytes), links (text) and folders (None), the same each time."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(entries.items()):
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.mode = 0o755
            if isinstance(content, bytes):
                entry.size = len(content)
            elif content is None:
                entry.type = tarfile.DIRTYPE
            else:
                entry.type, entry.linkname = tarfile.SYMTYPE, content
            archive.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
    return written.getvalue()


__all__ = ["NAME", "TRIAL_MS", "remove_left", "trial_image", "trial_mounts"]
