"""Bytes of files in and out of the workspace, piece by piece."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from patchyard.toolbox import transfer
from toolboxes import Operations


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def got(tools: Operations, path: str) -> tuple[bytes, dict[str, Any]]:
    """The whole file, and the last answer."""
    data = b""
    answer: dict[str, Any] = {"is_last": False}
    while not answer["is_last"]:
        answer = tools.run("get_file", path=path, offset=len(data))
        data += base64.b64decode(answer["data"])
    return data, answer


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 35])
def test_a_file_of_any_bytes_travels_both_ways(
    tools: Operations, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(transfer, "PIECE_BYTES", 10)
    content = bytes(range(200, 256))[:size] + b"\0"
    at = 0
    while at < len(content):
        piece = content[at : at + 10]
        put = tools.run("put_file", path="a/b.bin", data=encoded(piece), offset=at)
        at += len(piece)
        assert (put["success"], put["size"], put["path"]) == (True, at, "a/b.bin")
    assert (tools.workspace / "a/b.bin").read_bytes() == content
    data, last = got(tools, "a/b.bin")
    assert (data, last["size"], last["executable"]) == (content, len(content), False)


def test_beginning_anew_leaves_nothing_of_the_old(tools: Operations) -> None:
    tools.run("put_file", path="f", data=encoded(b"a long old one"))
    tools.run("put_file", path="f", data=encoded(b"new"), executable=True)
    assert (tools.workspace / "f").read_bytes() == b"new"
    assert os.access(tools.workspace / "f", os.X_OK)


def test_programs_stay_programs(tools: Operations) -> None:
    tools.run("put_file", path="run.sh", data=encoded(b"#!/bin/sh\n"), executable=True)
    assert os.access(tools.workspace / "run.sh", os.X_OK)
    assert got(tools, "run.sh")[1]["executable"] is True


def test_a_folder_is_made_once(tools: Operations) -> None:
    for _ in range(2):
        assert tools.run("put_file", path="a/empty", folder=True)["success"]
    assert list((tools.workspace / "a/empty").iterdir()) == []
    tools.run("put_file", path="file", data="")
    assert tools.code("put_file", path="file", folder=True) == "NOT_A_DIRECTORY"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"path": "../out", "data": ""}, "PATH_OUTSIDE_WORKSPACE"),
        ({"path": "link/new", "data": ""}, "PATH_OUTSIDE_WORKSPACE"),
        ({"path": "link", "data": ""}, "PATH_OUTSIDE_WORKSPACE"),
        ({"path": "folder", "data": ""}, "IS_A_DIRECTORY"),
        ({"path": ".", "data": ""}, "IS_A_DIRECTORY"),
        ({"path": "fifo", "data": ""}, "NOT_A_FILE"),
        ({"path": "f", "data": "no base 64!"}, "VALIDATION_ERROR"),
        ({"path": "f", "data": "ü"}, "VALIDATION_ERROR"),
        ({"path": "f", "data": "", "offset": -1}, "VALIDATION_ERROR"),
        ({"path": "f", "data": encoded(b"x" * 11)}, "VALIDATION_ERROR"),
        ({"path": "f", "data": encoded(b"x"), "offset": 5}, "CONFLICT"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    tools: Operations,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    args: dict[str, Any],
    code: str,
) -> None:
    monkeypatch.setattr(transfer, "PIECE_BYTES", 10)
    outside = tmp_path / "outside"
    outside.mkdir()
    (tools.workspace / "link").symlink_to(outside)
    (tools.workspace / "folder").mkdir()
    os.mkfifo(tools.workspace / "fifo")
    assert tools.code("put_file", **args) == code
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "code"),
    [("none", "FILE_NOT_FOUND"), ("..", "PATH_OUTSIDE_WORKSPACE"), (".", "IS_A_DIRECTORY")],
)
def test_only_files_of_the_workspace_are_given_out(tools: Operations, path: str, code: str) -> None:
    assert tools.code("get_file", path=path) == code


def test_where_nothing_may_be_written_nothing_is_put(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"old")
    tools = Operations(tmp_path, is_read_only=True)
    assert tools.code("put_file", path="there", data="") == "READ_ONLY"
    assert got(tools, "there")[0] == b"old"
