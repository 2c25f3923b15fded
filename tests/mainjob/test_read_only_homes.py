"""A home that cannot be written to can be looked at; all else says that it is read-only."""

import os
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mainjob.driver import Desk, finish, write

pytestmark = [pytest.mark.service("bubblewrap")]


@contextmanager
def closed(home: Path) -> Iterator[None]:
    """Let nothing in a folder be written: mounted so, or where that needs root by its rights."""
    if os.geteuid():
        places = [home, *(each for each in home.rglob("*") if not each.is_symlink())]
        modes = [(each, each.stat().st_mode) for each in places]
        for each, mode in modes:
            each.chmod(mode & 0o555)
        yield
        for each, mode in modes:
            each.chmod(mode)
        return
    subprocess.run(["mount", "--bind", str(home), str(home)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(home)], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True)


def files_of(home: Path) -> dict[str, tuple[int, int]]:
    """Size and time of each file; none of a folder: its owner can date one that is closed."""
    found = ((each, each.lstat()) for each in home.rglob("*"))
    return {
        str(each): (0, 0) if stat.S_ISDIR(seen.st_mode) else (seen.st_size, seen.st_mtime_ns)
        for each, seen in found
    }


def test_a_read_only_home_is_looked_at_and_everything_else_says_what_it_is(
    desk: Desk, tmp_path: Path
) -> None:
    plan = desk.run(write("x", "x\n"), finish()).data["plan_id"]
    home = desk.folder / "state"
    before = files_of(home)
    with closed(home):
        listed = desk.agents("plan", "list")
        assert [each["plan_id"] for each in listed.data["plans"]] == [plan]
        for words in ("status", "diff", "verify", "events", "errors", "tree", "watch", "route"):
            said = desk.agents("plan", words, plan)
            assert said.code == 0, (words, said.message)
        target = tmp_path / "plan.json"
        assert desk.agents("plan", "export", plan, "--to", str(target)).code == 0
        assert plan in target.read_text()
        for changing in (("apply", plan), ("resume", plan), ("cancel", plan)):
            said = desk.agents("plan", *changing)
            assert (said.code, f"the home {home} is read-only" in said.message) == (4, True)
        queued = (*("run", "-d", "y"), *("--model", f"scripted:{desk.script(finish())}"))
        for beginning in (("worker",), ("init",), ("demo",), queued):
            said = desk.agents(*beginning)
            assert (said.code, f"the home {home} is read-only" in said.message) == (4, True)
        said = desk.run(write("y", "y\n"), finish())
        assert (said.code, f"the home {home} is read-only" in said.message) == (4, True)
        assert not (desk.repo / ".patchyard").exists()
        assert f"{home} is read-only" in desk.agents("doctor", is_json=False).out.decode()
    assert files_of(home) == before


def test_a_read_only_home_of_an_older_version_is_looked_at_in_a_copy(desk: Desk) -> None:
    plan = desk.run(write("x", "x\n"), finish()).data["plan_id"]
    home = desk.folder / "state"
    connection = sqlite3.connect(home / "patchyard.db", isolation_level=None)
    connection.execute("DROP TABLE heads")
    connection.execute("PRAGMA user_version = 6")
    connection.close()
    with closed(home):
        assert [each["plan_id"] for each in desk.agents("plan", "list").data["plans"]] == [plan]
        assert desk.agents("plan", "verify", plan).code == 0
        assert desk.agents("plan", "cancel", plan).code in {3, 4}
    assert sqlite3.connect(home / "patchyard.db").execute("PRAGMA user_version").fetchone() == (6,)


@pytest.mark.parametrize("has_index", [True, False])
def test_a_killed_processs_log_in_a_read_only_home_is_read(desk: Desk, *, has_index: bool) -> None:
    plan = desk.run(write("x", "x\n"), finish()).data["plan_id"]
    home = desk.folder / "state"
    other = sqlite3.connect(home / "patchyard.db", isolation_level=None)
    other.execute("UPDATE summaries SET summary = json_set(summary, '$.task', 'in the log')")
    if not has_index:
        (home / "patchyard.db-shm").unlink()
    with closed(home):
        assert desk.agents("plan", "list").data["plans"][0]["task"] == "in the log"
        assert desk.agents("plan", "diff", plan).code == 0
    other.close()
