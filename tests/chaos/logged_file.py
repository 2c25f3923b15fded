"""A file that logs every write and every flush, in order, by a file system of its own (FUSE).

Under a loop device it is a disk whose cache can be seen: what was written since the last flush is
what a power cut may take. Run as a program it serves one file: `IMAGE LOG DESCRIPTOR`, where the
descriptor is an open `/dev/fuse`.
"""

import errno
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["ENTRY", "FLUSH", "logged_file"]

#: Head of an entry in the log: where it was written and how much, which follows. Native order.
ENTRY = struct.Struct("=QI")
FLUSH = (1 << 64) - 1  # where a flush was written to: nothing follows

# linux/fuse.h
IN = struct.Struct("=IIQQIIIHH")
OUT = struct.Struct("=IiQ")
INIT_IN = struct.Struct("=IIII")
INIT_OUT = struct.Struct("=IIIIHHIIHHI28x")
ATTR = struct.Struct("=QQQQQQIIIIIIIIII")
ATTR_OUT = struct.Struct("=QII")
OPEN_OUT = struct.Struct("=QII")
TRANSFER = struct.Struct("=QQIIQII")  # of fuse_read_in and fuse_write_in
WRITE_OUT = struct.Struct("=II")
GETATTR, SETATTR, OPEN, READ, WRITE = 3, 4, 14, 15, 16
RELEASE, FSYNC, FLUSHED, INIT, INTERRUPT, DESTROY = 18, 20, 25, 26, 36, 38
FORGOTTEN = {2, INTERRUPT, 42}  # requests that want no reply
BIG_WRITES, MAX_PAGES = 1 << 5, 1 << 22
DIRECT = 1  # FOPEN_DIRECT_IO: no page cache between the loop device and the log
MOST = 1 << 20


class Server:
    """Answers the kernel's requests for one file."""

    def __init__(self, image: Path, log: Path) -> None:
        self._image = os.open(image, os.O_RDWR)
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._attributes = _attributes(os.fstat(self._image).st_size)
        self._answers: dict[int, Callable[[memoryview], bytes]] = {
            INIT: _begun,
            GETATTR: lambda _: self._attributes,
            SETATTR: lambda _: self._attributes,
            OPEN: lambda _: OPEN_OUT.pack(0, DIRECT, 0),
            READ: self._read,
            WRITE: self._write,
            FSYNC: self._flush,
            FLUSHED: lambda _: b"",
            RELEASE: lambda _: b"",
        }

    def serve(self, device: int) -> None:
        """Serve until the file is unmounted."""
        room = bytearray(MOST + 65536)
        while True:
            try:
                size = os.readv(device, [room])
            except OSError as error:
                if error.errno == errno.ENODEV:  # unmounted
                    return
                if error.errno in {errno.EINTR, errno.ENOENT, errno.EAGAIN}:
                    continue
                raise
            request = memoryview(room)[:size]
            _, opcode, unique, *_ = IN.unpack_from(request)
            if opcode in FORGOTTEN:
                continue
            answer = self._answers.get(opcode)
            body, error_number = (b"", errno.ENOSYS)
            if answer is not None:
                body, error_number = answer(request[IN.size :]), 0
            os.writev(device, [OUT.pack(OUT.size + len(body), -error_number, unique), body])

    def _read(self, request: memoryview) -> bytes:
        _, offset, size, *_ = TRANSFER.unpack_from(request)
        return os.pread(self._image, size, offset)

    def _write(self, request: memoryview) -> bytes:
        _, offset, size, *_ = TRANSFER.unpack_from(request)
        data = request[TRANSFER.size : TRANSFER.size + size]
        os.writev(self._log, [ENTRY.pack(offset, size), data])
        os.pwrite(self._image, data, offset)
        return WRITE_OUT.pack(size, 0)

    def _flush(self, _: memoryview) -> bytes:
        os.write(self._log, ENTRY.pack(FLUSH, 0))
        return b""


def _begun(request: memoryview) -> bytes:
    major, minor, readahead, _ = INIT_IN.unpack_from(request)
    flags = BIG_WRITES | MAX_PAGES
    pages = MOST // os.sysconf("SC_PAGESIZE")
    return INIT_OUT.pack(major, min(minor, 31), readahead, flags, 12, 9, MOST, 1, pages, 0, 0)


def _attributes(size: int) -> bytes:
    owner = (os.getuid(), os.getgid())
    mode = stat.S_IFREG | 0o600
    attributes = ATTR.pack(1, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, *owner, 0, 4096, 0)
    return ATTR_OUT.pack(3600, 0, 0) + attributes


@contextmanager
def logged_file(image: Path, log: Path, place: Path) -> Iterator[None]:
    """Mount `image` as the file `place`; what is written there and flushed goes to `log`, too."""
    place.touch()
    device = os.open("/dev/fuse", os.O_RDWR)
    try:
        options = f"fd={device},rootmode={stat.S_IFREG:o},user_id=0,group_id=0"
        mount = ["mount", "-i", "-t", "fuse", "-o", options, "logged", str(place)]
        subprocess.run(mount, check=True, capture_output=True, pass_fds=[device])
        words = [sys.executable, __file__, str(image), str(log), str(device)]
        server = subprocess.Popen(words, pass_fds=[device])
    finally:
        os.close(device)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True, capture_output=True)
        server.terminate()
        server.wait(timeout=120)


if __name__ == "__main__":
    Server(Path(sys.argv[1]), Path(sys.argv[2])).serve(int(sys.argv[3]))
