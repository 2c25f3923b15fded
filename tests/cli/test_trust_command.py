"""`agents trust`: what makes it void, what it refuses, and what it says that it grants."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from patchyard.cli.config import config
from patchyard.cli.init import init
from patchyard.cli.trust import trust
from patchyard.clients.glimpse import FILE_BYTES

COMMANDS: dict[str, click.Command] = {"config": config, "init": init, "trust": trust}
DEEP = "/".join("abcdefghijkl")
LARGE = bytes(FILE_BYTES + 1)


@pytest.fixture(autouse=True)
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shop"
    (folder / ".patchyard").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    (folder / ".patchyard" / "config.yaml").write_text("variables: {GREETING: hello}\n")
    monkeypatch.chdir(folder)
    return folder


def typed(*words: str) -> Result:
    return CliRunner().invoke(COMMANDS[words[0]], words[1:], catch_exceptions=False)


def data(*words: str) -> Any:
    envelope = json.loads(typed(*words, "--format", "json").stdout)
    assert envelope["status"] == "ok", envelope
    return envelope["data"]


def is_trusted() -> bool:
    return bool(data("config", "show")["trusted"])


def put(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def large(folder: Path) -> None:
    put(folder / "large", LARGE)


def deep(folder: Path) -> None:
    put(folder / DEEP / "tool", b"1")


def link(folder: Path) -> None:
    (folder / "tool").symlink_to("/bin/true")


def linked_folder(folder: Path) -> None:
    (folder / "tools").symlink_to("..", target_is_directory=True)


def file(folder: Path) -> None:
    put(folder / "tool", b"/bin/true")


def relinked(folder: Path) -> None:
    (folder / "tool").unlink()
    (folder / "tool").symlink_to("/bin/false")


def replaced(folder: Path) -> None:
    (folder / "tool").unlink()
    file(folder)


def turned(folder: Path) -> None:
    (folder / "tool").unlink()
    link(folder)


def nothing(folder: Path) -> None:
    """Leave it."""


Change = Callable[[Path], None]


@pytest.mark.parametrize(
    ("before", "change"),
    [
        (nothing, large),
        (nothing, deep),
        (nothing, link),
        (nothing, linked_folder),
        (large, lambda folder: put(folder / "large", LARGE[1:] + b"x")),
        (large, lambda folder: (folder / "large").unlink()),
        (deep, lambda folder: put(folder / DEEP / "tool", b"2")),
        (deep, lambda folder: (folder / DEEP / "tool").unlink()),
        (link, relinked),
        (link, replaced),
        (file, turned),
        (linked_folder, lambda folder: (folder / "tools").rename(folder / "others")),
    ],
)
def test_whatever_changes_in_the_folder_makes_trust_void(
    top: Path, before: Change, change: Change
) -> None:
    before(top / ".patchyard")
    data("trust")
    assert is_trusted()
    change(top / ".patchyard")
    assert not is_trusted()
    data("trust")
    assert is_trusted()


def test_what_is_trusted_is_listed_whole(top: Path) -> None:
    for make in (large, deep, link):
        make(top / ".patchyard")
    found = [".patchyard/config.yaml", ".patchyard/large", ".patchyard/tool"]
    assert data("trust")["files"] == sorted([*found, f".patchyard/{DEEP}/tool"])


def pipe(folder: Path) -> None:
    (folder / "deep").mkdir()
    os.mkfifo(folder / "deep" / "pipe")


def sparse(folder: Path) -> None:
    with (folder / "huge").open("wb") as opened:
        opened.truncate(10**12)


def many(folder: Path) -> None:
    for number in range(501):
        (folder / str(number)).touch()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (pipe, ".patchyard/deep/pipe is a special file"),
        (sparse, ".patchyard holds more than"),
        (many, ".patchyard holds more than"),
    ],
)
def test_what_cannot_be_hashed_is_not_trusted(top: Path, make: Change, words: str) -> None:
    data("trust")
    make(top / ".patchyard")
    assert not is_trusted()
    assert words in typed("config", "show").stderr
    refused = typed("trust")
    assert refused.exit_code == 2
    assert words in refused.stderr
    assert "trust" in refused.stderr


def test_init_does_not_trust_what_it_did_not_write(top: Path) -> None:
    for make in (deep, large, link, pipe):
        made = top / ".patchyard"
        subprocess.run(["rm", "-r", made], check=True)
        made.mkdir()
        make(made)
        assert not data("init")["trusted"]
    assert not is_trusted()
