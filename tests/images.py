"""Images for the tests of containers, made of files of this machine's own Debian packages.

No registry is needed. An image is named after what it is made of, and made once an engine.
"""

import contextlib
import fcntl
import functools
import hashlib
import io
import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from services import REAL_ENVIRONMENT

__all__ = [
    "BUSYBOX",
    "WITHOUT_PYTHON",
    "WITH_PYTHON",
    "bare_image",
    "built_on",
    "image",
]

SHELL = (
    *("base-files", "bash", "coreutils", "dash", "diffutils", "findutils", "grep", "sed", "tar"),
    *("libacl1", "libattr1", "libc6", "libcrypt1", "libgmp10", "libpcre2-8-0", "libselinux1"),
    *("libssl3", "libtinfo6", "util-linux", "procps", "libproc2-0"),
)
WITHOUT_PYTHON = SHELL
WITH_PYTHON = (
    *SHELL,
    *("git", "libbz2-1.0", "libexpat1", "libffi8", "liblzma5", "libsqlite3-0", "libuuid1"),
    *("libpython3.11-minimal", "libpython3.11-stdlib", "python3-minimal", "python3.11-minimal"),
    "zlib1g",
)
LEFT_OUT = ("/usr/share/doc", "/usr/share/info", "/usr/share/locale", "/usr/share/man")
LINKS = ("bin", "lib", "lib64", "sbin")
FOLDERS = ("dev", "home", "proc", "root", "run", "sys", "tmp")
BUILD_S = 120.0


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Keep others of the suite out: two that make one image at once leave two of its name."""
    folder = os.open(tempfile.gettempdir(), os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@functools.cache
@_alone()
def image(packages: tuple[str, ...]) -> str:
    """Return the name of an image that holds the files of these packages."""
    listed = subprocess.run(
        ["dpkg-query", "--show", *packages], check=True, capture_output=True, text=True
    )
    digest = hashlib.sha256(listed.stdout.encode()).hexdigest()[:16]
    name = f"patchyard-test:{digest}"
    if not _docker("image", "inspect", name).returncode:
        return name
    made = _docker("import", "-", name, data=_archive(packages))
    assert made.returncode == 0, made.stderr.decode()
    return name


BUSYBOX = {"bin/busybox": "/bin/busybox", "bin/sh": "busybox", "bin/ls": "busybox"}
"""Files of an image by their place: a path of this machine, or the program a link leads to."""


@_alone()
def bare_image(files: Mapping[str, str], *, architecture: str = "amd64") -> str:
    """Return the name of an image that holds `files` and empty folders, and nothing else."""
    made_of = repr((sorted(files.items()), architecture)).encode()
    name = f"patchyard-test-bare:{hashlib.sha256(made_of).hexdigest()[:16]}"
    if not _docker("image", "inspect", name).returncode:
        return name
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for folder in (*FOLDERS, "bin", "lib", "etc"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for place, source in files.items():
            if source.startswith("/"):
                archive.add(os.path.realpath(source), arcname=place)
                continue
            link = tarfile.TarInfo(place)
            link.type, link.linkname = tarfile.SYMTYPE, source
            archive.addfile(link)
    made = _docker("load", data=_loadable(name, written.getvalue(), architecture))
    assert made.returncode == 0, made.stderr.decode()
    return name


def _loadable(name: str, layer: bytes, architecture: str) -> bytes:
    """Return an image of one layer, as engines load it."""
    layers = [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": ["PATH=/usr/bin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": layers},
    }
    listed = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    parts = {
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer,
        "manifest.json": json.dumps(listed).encode(),
    }
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for place, content in parts.items():
            entry = tarfile.TarInfo(place)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()


@_alone()
def built_on(on: str, *lines: str) -> str:
    """Return the name of an image like `on`, with these lines of a Dockerfile on top."""
    text = "\n".join([f"FROM {on}", *lines, ""]).encode()
    name = f"patchyard-test-built:{hashlib.sha256(text).hexdigest()[:16]}"
    if _docker("image", "inspect", name).returncode:
        made = _docker("build", "--quiet", "--network", "none", "--tag", name, "-", data=text)
        assert made.returncode == 0, made.stderr.decode()
    return name


def _docker(*words: str, data: bytes | None = None) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        ["docker", *words],
        input=data,
        check=False,
        capture_output=True,
        env=REAL_ENVIRONMENT,
        timeout=BUILD_S,
    )


def _archive(packages: tuple[str, ...]) -> bytes:
    command = ["dpkg-query", "--listfiles", *packages]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    places = {_place(Path(line)) for line in listed.splitlines() if _is_wanted(line)}
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name in LINKS:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(link)
        for name in sorted(set(FOLDERS) - places):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        for place in sorted(places - set(LINKS) - {""}):
            archive.add(f"/{place}", arcname=place, recursive=False)
    return written.getvalue()


def _is_wanted(line: str) -> bool:
    return line.startswith("/") and not line.startswith(LEFT_OUT) and os.path.lexists(line)


def _place(path: Path) -> str:
    """Where it really lies: packages still say /bin where it is a link to /usr/bin."""
    return str(path.parent.resolve() / path.name).lstrip("/")
