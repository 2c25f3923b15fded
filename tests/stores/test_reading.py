"""A database that is opened for looking alone, while another process may write to it."""

import contextlib
import sqlite3
from pathlib import Path

from patchyard.stores import reading


def test_what_another_writes_after_the_log_was_emptied_is_seen(tmp_path: Path) -> None:
    place = tmp_path / "x.db"
    with contextlib.closing(sqlite3.connect(place, isolation_level=None)) as writing:
        writing.execute("PRAGMA journal_mode = WAL")
        writing.execute("CREATE TABLE t (n)")
        writing.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert place.with_name("x.db-wal").stat().st_size == 0
        with contextlib.closing(reading.opened(place, timeout_s=1.0)) as looking:
            writing.execute("INSERT INTO t VALUES (1)")
            assert looking.execute("SELECT n FROM t").fetchall() == [(1,)]


def test_an_empty_log_without_shared_memory_hides_nothing(tmp_path: Path) -> None:
    place = tmp_path / "x.db"
    with contextlib.closing(sqlite3.connect(place, isolation_level=None)) as writing:
        writing.execute("PRAGMA journal_mode = WAL")
        writing.execute("CREATE TABLE t (n)")
    place.with_name("x.db-wal").touch()
    with contextlib.closing(reading.opened(place, timeout_s=1.0)) as looking:
        assert looking.execute("SELECT n FROM t").fetchall() == []
    assert not place.with_name("x.db-shm").exists()
