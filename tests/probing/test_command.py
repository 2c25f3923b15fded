"""`agents env probe` at the shell: what it prints, and how it ends."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mainjob.driver import Answer, Desk
from patchyard.probing import probe
from patchyard.probing.attack import Attack
from patchyard.probing.battery import all_attacks

NAMES = ("file-by-path", "terminal-escapes", "answer-malformed")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk where the battery has three attacks."""

    def few(show: Callable[[str], str]) -> Sequence[Attack]:
        return [attack for attack in all_attacks(show) if attack.name in NAMES]

    monkeypatch.setattr(probe, "all_attacks", few)
    for name in ("home", "repo"):
        (tmp_path / name).mkdir()
    return Desk(folder=tmp_path, repo=tmp_path / "repo")


def probed(desk: Desk, kind: str, *, is_json: bool = True) -> Answer:
    return desk.agents("env", "probe", kind, is_json=is_json)


@pytest.mark.service("bubblewrap")
def test_each_verdict_stands_in_its_group(desk: Desk) -> None:
    said = probed(desk, "process", is_json=False)
    assert said.code == 0, said.err
    assert said.out.decode().splitlines() == [
        "files",
        "  held       read a file outside by its path",
        "",
        "terminal",
        "  held       steer the user's terminal by what is printed",
        "",
        "answers",
        "  held       answer with what is no JSON",
        "",
        "process: 3 held, 0 SUCCEEDED, 0 known, 0 not shown",
    ]


def test_what_is_known_says_why_and_is_no_failure(desk: Desk) -> None:
    said = probed(desk, "host")
    assert said.code == 0, said.message
    row = said.data["rulings"][0]
    assert (row["attack"], row["group"], row["verdict"]) == ("file-by-path", "files", "known")
    assert row["note"] == (
        "the bait's content came out (no walls: every file that its user may use)"
    )
    assert said.data["counts"] == {"held": 2, "SUCCEEDED": 0, "known": 1, "not shown": 0}
    shown = probed(desk, "host", is_json=False).out.decode()
    assert "  known      read a file outside by its path (the bait's content came out" in shown


def test_what_is_not_known_is_a_failure_that_names_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "known_of", lambda *_: {})
    said = probed(desk, "host")
    assert said.code == 1
    assert "host did not stop: file-by-path" in said.message
    assert "SECURITY.md" in said.message


def test_an_unknown_kind_lists_the_right_ones(desk: Desk) -> None:
    said = probed(desk, "cellar")
    assert said.code == 2
    assert "process" in said.message


def test_a_kind_that_does_not_start_says_why(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{desk.folder}/none.sock")
    said = probed(desk, "container")
    assert said.code == 4
    assert "none.sock does not answer" in said.message


def test_a_place_without_python_is_not_called_safe(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchyard.probing.running.PYTHON", "no-such-python")
    said = probed(desk, "host")
    assert said.code == 4
    assert "nothing could be tried in host: it did not run inside" in said.message
    assert json.dumps(said.data["counts"]) == json.dumps(
        {"held": 1, "SUCCEEDED": 0, "known": 0, "not shown": 2}
    )
