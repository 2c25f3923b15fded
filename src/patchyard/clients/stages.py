"""A folder where contents wait until they are moved in, held open while it is used.

It lies in a folder that another user may write, who could put another folder or a link in its
place: all that is made in it goes by a descriptor.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from patchyard.clients.reader import OPEN_FOLDER

OWN = 0o700


@contextlib.contextmanager
def stage(place: Path, name: str) -> Iterator[Path]:
    """Yield the fresh folder `name` in `place`, as a path by its descriptor; both go at the end.

    Raises OSError, also where what lies at `place` is a link or another user's.
    """
    with _opened(place.parent, OPEN_FOLDER & ~os.O_NOFOLLOW) as above:
        with contextlib.suppress(FileExistsError):
            os.mkdir(place.name, OWN, dir_fd=above)
        with _opened(place.name, OPEN_FOLDER, at=above) as at:
            if os.fstat(at).st_uid != os.geteuid():
                raise OSError(errno.EPERM, "it is another user's", os.fspath(place))
            shutil.rmtree(name, ignore_errors=True, dir_fd=at)
            try:
                os.mkdir(name, OWN, dir_fd=at)
                with _opened(name, OPEN_FOLDER, at=at) as inner:
                    yield Path(f"/proc/self/fd/{inner}")
            finally:
                shutil.rmtree(name, ignore_errors=True, dir_fd=at)
                with contextlib.suppress(OSError):
                    os.rmdir(place.name, dir_fd=above)


@contextlib.contextmanager
def _opened(place: str | Path, flags: int, *, at: int | None = None) -> Iterator[int]:
    descriptor = os.open(place, flags, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


__all__ = ["stage"]
