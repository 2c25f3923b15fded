"""A tree at home and its replica: equal after each exchange, whoever changed what."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from replicas import Pair, contents, paired, replicated

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with paired(tmp_path) as made:
        yield made


async def test_what_lies_at_home_is_there_and_what_a_call_writes_comes_home(pair: Pair) -> None:
    (pair.home / "docs").mkdir()
    (pair.home / "docs/a.txt").write_text("one\n")
    (pair.home / "run.sh").write_text("echo\n")
    (pair.home / "run.sh").chmod(0o755)
    (pair.home / "link").symlink_to("docs/a.txt")
    async with replicated(pair) as toolbox:
        assert contents(pair.far) == contents(pair.home)
        command = {"command": "cat docs/a.txt > b; rm docs/a.txt; mkdir -p x/y; chmod 600 run.sh"}
        result = await toolbox.call("1", "execute_command", command)
        assert result["success"] is True
    assert contents(pair.far) == contents(pair.home)
    assert (pair.home / "b").read_text() == "one\n"
    assert not (pair.home / "docs/a.txt").exists()


async def test_after_one_change_among_many_files_one_file_moves(pair: Pair) -> None:
    for folder in range(50):
        (pair.home / str(folder)).mkdir()
        for number in range(100):
            (pair.home / f"{folder}/{number}.txt").write_text(f"{folder} {number}\n")
    async with replicated(pair) as toolbox:
        assert len(pair.listened.files_put()) == 5000
        (pair.home / "7/7.txt").write_text("changed at home\n")
        read = {"path": "7/7.txt"}
        result = await toolbox.call("1", "read_file", read)
        assert (result["content"], pair.listened.files_put()) == ("changed at home\n", ["7/7.txt"])
        await toolbox.call("2", "write_file", {"path": "8/8.txt", "content": "changed there\n"})
        assert pair.listened.files_fetched() == ["8/8.txt"]
        await toolbox.call("3", "read_file", read)
        assert (pair.listened.files_fetched(), pair.listened.asked) == ([], [])
    assert (pair.home / "8/8.txt").read_text() == "changed there\n"
    assert contents(pair.far) == contents(pair.home)
