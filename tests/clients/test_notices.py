"""What the kernel tells of one file, and what is said where it tells nothing."""

import os
import resource
from pathlib import Path

import pytest

from patchyard.clients.notices import ACCESSED, Notices


def test_a_file_is_told_of_once_however_often_it_is_read(tmp_path: Path) -> None:
    place = tmp_path / "a"
    place.write_text("x")
    notices = Notices(ACCESSED)
    number = notices.add(os.fsencode(place))
    assert notices.taken() == frozenset()
    for _ in range(3):
        place.read_text()
    assert notices.taken() == frozenset({number})
    assert notices.taken() == frozenset()
    notices.close()
    notices.close()


def test_what_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    notices = Notices(ACCESSED)
    with pytest.raises(FileNotFoundError):
        notices.add(os.fsencode(tmp_path / "a"))
    notices.close()


def test_without_a_descriptor_left_no_watch_is_made() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = os.open("/dev/null", os.O_RDONLY)
    os.close(held)  # the lowest that is free
    resource.setrlimit(resource.RLIMIT_NOFILE, (held, hard))
    try:
        with pytest.raises(OSError, match="no watch can be made"):
            Notices(ACCESSED)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
