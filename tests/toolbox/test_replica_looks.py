"""The look at a replica that rides on a call: whom it serves, and what comes in its way."""

import errno
import resource
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from patchyard.toolbox import replicating, trees
from patchyard.toolbox.operations import begin
from patchyard.toolbox.trees import Look, Tree
from toolboxes import Operations


@pytest.fixture(autouse=True)
def alone(tools: Operations, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process may have other children too: servers that tests share."""
    monkeypatch.setattr(replicating, "is_anything_running", lambda: bool(tools.room.running))
    monkeypatch.setattr(replicating, "COMPLETING_S", 60.0)  # a machine may stop for some seconds


def test_a_look_taken_with_a_call_serves_who_asks_next_alone(tools: Operations) -> None:
    tools.run("replica_look")
    told = tools.run("execute_command", command="echo x > a")
    assert told["replica"] == {"is_same": False, "is_busy": False}
    (tools.workspace / "b").touch()
    assert [row[0] for row in tools.run("replica_look")["entries"]] == ["a"]
    assert [row[0] for row in tools.run("replica_look")["entries"]] == ["a", "b"]
    tools.run("execute_command", command="true")
    (tools.workspace / "c").touch()
    tools.run("read_file", path="a")
    found = tools.run("replica_look")  # something may have happened since that call
    assert [row[0] for row in found["entries"]] == ["a", "b", "c"]
    tools.run("replica_settle", look=found["look"])
    told = tools.run("execute_command", command="false")
    assert told["replica"] == {"is_same": True, "is_busy": False}
    told = tools.run("execute_command", command="sleep 60", background=True)
    assert told["replica"] == {"is_same": True, "is_busy": True}
    (tools.workspace / "d").touch()
    assert [row[0] for row in tools.run("replica_look")["entries"]] == ["d"]


def test_a_look_at_a_file_that_grows_meanwhile_has_an_end(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tools.workspace / "log"
    log.write_bytes(b"seen")
    digest_of, pieces = trees.digest_of, []

    class Growing:
        """Each piece that is hashed has as many bytes more behind it."""

        def __init__(self) -> None:
            self.own = digest_of()

        def take(self, piece: bytes) -> None:
            self.own.take(piece)
            pieces.append(piece)
            assert len(pieces) < 9
            with log.open("ab") as file:
                file.write(piece)

        def hexdigest(self) -> str:
            return self.own.hexdigest()

    def named(content: bytes) -> str:
        own = digest_of()
        own.take(content)
        return own.hexdigest()

    with monkeypatch.context() as patched:
        patched.setattr(trees, "digest_of", Growing)
        [grown] = tools.run("replica_look")["entries"]
    [whole] = tools.run("replica_look")["entries"]
    assert (grown[4:], whole[4:]) == ([4, named(b"seen")], [8, named(b"seenseen")])


@pytest.mark.parametrize(
    ("place", "name"), [(Tree, "looking"), (replicating, "is_anything_running")]
)
def test_a_look_that_fails_leaves_its_call_a_result(
    tools: Operations, monkeypatch: pytest.MonkeyPatch, place: object, name: str
) -> None:
    tools.run("replica_look")

    def broken(*_: object) -> Any:
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(place, name, broken)
    told = tools.run("execute_command", command="true")
    assert told["success"] is True
    assert told["replica"] == {"is_same": False, "is_busy": True}


def test_a_look_that_takes_long_does_not_hold_up_the_result_of_its_call(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.run("replica_look")
    ended: list[str] = []

    def looking(_tree: Tree) -> Generator[float, None, Look]:
        try:
            while True:
                yield 0.001
        finally:
            ended.append("given up")

    with monkeypatch.context() as patch:
        patch.setattr(Tree, "looking", looking)
        patch.setattr(replicating, "COMPLETING_S", 0.01)
        told = tools.run("execute_command", command="echo x > a")
    assert told["success"] is True
    assert told["replica"] == {"is_same": False, "is_busy": True}
    assert ended == ["given up"]
    assert [row[0] for row in tools.run("replica_look")["entries"]] == ["a"]


def test_two_calls_that_end_together_are_looked_at_one_after_the_other(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.run("replica_look")
    begun: list[str] = []

    def looking(_tree: Tree) -> Generator[float, None, Look]:
        begun.append("begun")
        yield 0.0
        begun.append("over")
        return Look()

    monkeypatch.setattr(Tree, "looking", looking)
    calls = [tools.call(name) for name in "ab"]
    for call in calls:
        begin(tools.room, call, "write_file", {"path": call.call_id, "content": "x"})
    while any(call.frame is None for call in calls):
        tools.room.loop.turn()
    assert begun == ["begun", "over"] * 2


@pytest.mark.usefixtures("uncollected")
def test_no_more_folders_are_open_than_lie_above_one_another(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / "tree" / "many" / str(number) / "deep").mkdir(parents=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    tree = Tree(str(tmp_path / "tree"))
    used = descriptors()
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, hard))
    try:
        found = tree.look()
        assert descriptors() == used
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        tree.close()
    assert (len(found.changed), found.left_out) == (601, [])


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
