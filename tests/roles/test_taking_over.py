"""What a tester made comes into the work as it is: bytes, links, modes, moves."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from engine.worksite import call, done
from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.engine.taking_over import LARGEST, PIECE_BYTES, calls_for
from roles.test_colleagues import NEW, ZERO, Team

DATA = bytes(range(256)) * 300  # more than one piece


@pytest.mark.anyio
@pytest.mark.service("bubblewrap")
async def test_files_of_a_tester_keep_their_bytes_and_modes(tmp_path: Path) -> None:
    makes = (
        'mkdir -p tests/data && python3 -c \'open("tests/data/a b.bin", "wb")'
        ".write(bytes(range(256)) * 300)' && printf '#!/bin/sh\\nexit 0\\n' > tests/run.sh"
        " && chmod +x tests/run.sh && ln -s 'data/a b.bin' tests/link"
    )
    team = Team(
        tmp_path,
        developer=(call("write_file", path="calc.py", content=ZERO), done()),
        tester=(
            call("write_file", path="test_none.py", content=NEW),
            call("execute_command", command=makes),
            done(),
        ),
    )
    data, _, error = await team.run()
    assert error is None
    files = {each["path"]: each for each in data["changeset"]["files"]}
    assert {path: files[path]["mode"] for path in files if path.startswith("tests/")} == {
        "tests/data/a b.bin": "100644",
        "tests/link": "120000",
        "tests/run.sh": "100755",
    }
    blob = hashlib.sha1(b"blob %d\0" % len(DATA) + DATA, usedforsecurity=False).hexdigest()
    assert files["tests/data/a b.bin"]["blob"] == blob


def carried_out(folder: Path, change: Change, content: bytes | None) -> list[str]:
    """Carry the calls out as the tools do; their names."""
    calls = calls_for(change, content, ref="t")
    for wanted in calls:
        arguments = dict(wanted.arguments or {})
        if wanted.name == "execute_command":
            subprocess.run(["sh", "-c", arguments["command"]], cwd=folder, check=True)
        elif wanted.name == "write_file":
            (folder / arguments["path"]).write_text(arguments["content"])
        else:
            (folder / arguments["path"]).unlink(missing_ok=True)
    return [wanted.name for wanted in calls]


def test_a_move_takes_the_old_place_away_and_may_change_the_mode(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    change = Change(
        path="-new", old_path="old", status=ChangeStatus.RENAMED, old_mode="100644", mode="100755"
    )
    assert carried_out(tmp_path, change, b"text\r\n") == [
        "delete_file",
        "write_file",
        "execute_command",
    ]
    assert [each.name for each in tmp_path.iterdir()] == ["-new"]
    assert (tmp_path / "-new").stat().st_mode & 0o111
    less = Change(path="-new", status=ChangeStatus.MODIFIED, old_mode="100755", mode="100644")
    carried_out(tmp_path, less, b"\xff" * (PIECE_BYTES + 1))
    assert (tmp_path / "-new").read_bytes() == b"\xff" * (PIECE_BYTES + 1)
    assert not (tmp_path / "-new").stat().st_mode & 0o111


def test_what_was_a_link_is_written_itself_and_what_is_gone_goes(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "a").symlink_to("kept")
    change = Change(path="a", status=ChangeStatus.TYPE, old_mode="120000", mode="100644")
    carried_out(tmp_path, change, b"own")
    assert ((tmp_path / "a").read_text(), (tmp_path / "kept").read_text()) == ("own", "kept")
    gone = Change(path="a", status=ChangeStatus.DELETED, old_mode="100644")
    assert carried_out(tmp_path, gone, None) == ["delete_file"]
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


def test_what_no_tool_can_write_is_said() -> None:
    change = Change(path="a", status=ChangeStatus.ADDED, mode="100644")
    (wanted,) = calls_for(change, b"\0" * (LARGEST + 1), ref="t")
    assert (wanted.arguments, "no text, and larger than" in wanted.problem) == (None, True)
