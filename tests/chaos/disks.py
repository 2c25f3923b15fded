"""A disk whose power can be cut: only what was synced is there afterwards."""

import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from chaos.killing import environment_of
from endings import ended
from patchyard.clients.process import all_processes

__all__ = ["Machine", "machine"]

SIZE_MB = 4096  # a sparse file
SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN, linux/ext4.h
WITHOUT_LOG = 2  # EXT4_GOING_FLAGS_NOLOGFLUSH: what is not on the disk never gets there
RELEASED_S = 120.0
LOOKS = 3  # in a row that find nobody
BOOTED = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'


class Machine:
    """A yard on an ext4 of its own, and the engine's command line as after `boot` starts."""

    def __init__(self, image: Path, yard: Path, *, options: str = "") -> None:
        self.yard = yard
        self._options = ",".join(filter(None, ("loop", options)))
        self._image = image
        self._boot = image.with_suffix(".boot")
        self.boots = 0

    def start(self, *, is_other_boot: bool = True) -> None:
        """Mount the disk; it is another boot of the machine from now on, or still the same."""
        self._wait_for_the_last_one()
        self.boots += is_other_boot
        self._boot.write_text(f"{self.boots:08x}-0000-4000-8000-000000000000\n")
        _run("mount", "-o", self._options, str(self._image), str(self.yard))

    def _wait_for_the_last_one(self) -> None:
        """Wait until nobody has the disk of before: mount namespaces of others copy it."""
        deadline = time.monotonic() + RELEASED_S
        while subprocess.run(
            ["losetup", "-j", self._image], capture_output=True, check=True
        ).stdout:
            assert time.monotonic() < deadline, f"something holds {self._image}"
            time.sleep(0.02)

    def agents(self, *words: str, **variables: str) -> "subprocess.Popen[bytes]":
        """Start a command of the engine in this boot."""
        command = [sys.executable, "-m", "patchyard", *words]
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", BOOTED, str(self._boot), *command],
            cwd=self.yard / "repo",
            env={**environment_of(self.yard), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def answer(self, *words: str) -> dict[str, Any]:
        """The object that a command prints."""
        out, err = ended(self.agents(*words, "--format", "json"))
        assert out, err.decode()
        body: dict[str, Any] = json.loads(out)
        return body

    @contextmanager
    def full(self) -> Iterator[None]:
        """Leave no room on the disk for the length of the block."""
        fat = self.yard / "fat"
        with fat.open("wb") as file:
            free = os.statvfs(self.yard).f_bavail * os.statvfs(self.yard).f_frsize
            while free > 0:
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), free)
                except OSError:
                    free //= 2
        try:
            yield
        finally:
            fat.unlink()

    def cut(self) -> None:
        """Take the power away, and with it every process."""
        folder = os.open(self.yard, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, SHUTDOWN, struct.pack("I", WITHOUT_LOG))
        finally:
            os.close(folder)
        self._end_processes()
        self.stop()

    def _end_processes(self) -> None:
        deadline = time.monotonic() + RELEASED_S
        quiet = 0
        while quiet < LOOKS:  # who is being started names nothing for a moment
            found = self._processes()
            assert not found or time.monotonic() < deadline, found
            for pid in found:
                _thaw(pid)  # what is frozen for a checkpoint does not die before
                _kill(pid)
            quiet = 0 if found else quiet + 1
            time.sleep(0.01)

    def _processes(self) -> list[int]:
        """Who names the yard in command line, environment, folder or open files."""
        needle = f"{self.yard}/".encode()
        own = os.getpid()
        return [
            process.pid
            for process in all_processes()
            if process.pid != own
            and process.state not in "ZX"
            and any(needle in text for text in _said(process.pid))
        ]

    def stop(self) -> None:
        """Unmount the disk with all that is mounted on it."""
        mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
        places = [line.split(" ")[4] for line in mounts]
        for place in reversed(places):
            if place == str(self.yard) or place.startswith(f"{self.yard}/"):
                subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)


def _said(pid: int) -> list[bytes]:
    found = []
    for name in ("cmdline", "environ"):
        try:
            found.append(Path(f"/proc/{pid}/{name}").read_bytes())
        except OSError:
            continue
    with suppress(OSError):
        places = [f"/proc/{pid}/cwd", *(one.path for one in os.scandir(f"/proc/{pid}/fd"))]
        for place in places:
            with suppress(OSError):
                found.append(os.fsencode(Path(place).readlink()))
    return found


def _thaw(pid: int) -> None:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "/patchyard-" not in path:
                continue
            if "freezer" in controllers:
                Path(f"/sys/fs/cgroup/freezer{path}/freezer.state").write_text("THAWED")
            elif not controllers:
                Path(f"/sys/fs/cgroup{path}/cgroup.freeze").write_text("0")


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _run(*command: str, cwd: Path | None = None) -> None:
    subprocess.run(command, check=True, capture_output=True, cwd=cwd)


@contextmanager
def machine(folder: Path, files: Sequence[tuple[str, str]]) -> Iterator[Machine]:
    """A machine whose disk holds a repository of `files`, synced; gone after the block."""
    image, yard = folder / "disk.ext4", folder / "yard"
    yard.mkdir(parents=True)
    with image.open("wb") as file:
        file.truncate(SIZE_MB * 1024 * 1024)
    _run("mkfs.ext4", "-q", str(image))
    made = Machine(image, yard)
    made.start()
    try:
        repository = yard / "repo"
        repository.mkdir()
        for name, text in files:
            (repository / name).parent.mkdir(parents=True, exist_ok=True)
            (repository / name).write_text(text)
        git = ["git", "-c", "user.name=T", "-c", "user.email=t@localhost"]
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
            _run(*git, *words, cwd=repository)
        _run("sync", "--file-system", str(yard))
        yield made
    finally:
        made.stop()
        image.unlink()
