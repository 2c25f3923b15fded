"""Where a command's words go: closed, full, broken outputs, and readers that are strict."""

import importlib
import itertools
import json
import math
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import patchyard
from patchyard.cli.encoding import portable
from patchyard.cli.lacking import placed
from patchyard.cli.outcome import error_data
from patchyard.domain.errors import PatchyardError, Unavailable, UnknownName

LONGEST_S = 120.0  # a hang is a failure; a busy machine is none
LISTS = f"{sys.executable} -m patchyard plan list --all"


def shell(line: str, home: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PATCHYARD_HOME": str(home)}
    words = ["bash", "-c", line]
    return subprocess.run(
        words, env=environ, capture_output=True, text=True, timeout=LONGEST_S, check=False
    )


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (f"{LISTS} >&-", 0, ""),
        (f"{LISTS} --format json >&-", 0, ""),
        (f"{LISTS} 2>&-", 0, ""),
        (f"{LISTS} >/dev/full", 4, "standard output: No space left"),
        (f"{sys.executable} -m patchyard plan status >&-", 2, "no plan"),
        (f"{LISTS} | true", 0, ""),
    ],
)
def test_an_output_that_takes_nothing_is_no_traceback(
    tmp_path: Path, line: str, code: int, said: str
) -> None:
    done = shell(line, tmp_path / "home")
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert said in done.stderr


def test_a_path_that_is_no_utf8_is_printed_where_the_output_takes_utf8_alone(
    tmp_path: Path,
) -> None:
    program = tmp_path / "says.py"
    program.write_text(
        "import click\nfrom patchyard.cli import main\n"
        "main.agents.main = lambda **_: click.echo('at caf\\udce9')\nmain.main()\n"
    )
    line = f"PYTHONIOENCODING=utf-8:strict {sys.executable} {program}"
    done = shell(line, tmp_path / "home")
    assert (done.returncode, done.stdout) == (0, "at caf\\udce9\n"), done.stderr


def test_a_folder_that_is_gone_is_named_with_the_cure(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    for said in ("", "WORKSPACE_DIR=relative "):
        words = f"mkdir {gone}; cd {gone}; rmdir {gone}; {said}{LISTS[:-6]}"
        done = shell(words, tmp_path / "home")
        assert done.returncode == 4, done.stderr
        assert f"the folder you are in is not there any more: {gone}" in done.stderr
    assert "hint: go to one that is" in done.stderr


def test_a_full_disk_is_said_with_the_folder_that_lies_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, filled = shutil.disk_usage, itertools.count()

    def filling(place: Path) -> object:  # as where others write to the disk between two looks
        return real(place)._replace(free=(1 << 30) - next(filled))

    monkeypatch.setattr("shutil.disk_usage", filling)
    home, tasks = tmp_path / "home", tmp_path / "new" / "work"
    full = Unavailable("fatal: write error: No space left on device", hint="free some space")
    environ = {"PATCHYARD_HOME": str(home), "WORKSPACE_DIR": str(tasks)}
    monkeypatch.setattr("patchyard.cli.lacking.SCARCE_BYTES", 0)  # another disk is the full one
    assert placed(full, environ).hint == "free some space"
    monkeypatch.setattr("patchyard.cli.lacking.SCARCE_BYTES", 1 << 60)
    said = placed(full, environ).hint
    assert said.startswith(f"free some space; {home} has ")
    assert said.endswith("PATCHYARD_HOME chooses another place")
    assert placed(PatchyardError("x"), {}).hint == ""


def test_a_reader_that_goes_away_changes_no_exit_code(tmp_path: Path) -> None:
    line = f"set -o pipefail; {LISTS} --format json | true"
    assert shell(line, tmp_path / "home").returncode == 0


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("plan frobnicate --format=json", "plan"),
        ("run x --zz --format json", "run"),
        ("project context set --format json", "project context set"),
    ],
)
def test_wrong_usage_is_an_object_that_names_the_command(
    tmp_path: Path, words: str, command: str
) -> None:
    done = shell(f"{sys.executable} -m patchyard {words}", tmp_path / "home")
    body = json.loads(done.stdout)
    assert (done.returncode, body["command"], body["exit_code"]) == (2, command, 2)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run - <&-", "the task is empty"),
        ("run @/dev/zero", "longer than 1,000,000 bytes"),
        ("run - < /dev/zero", "longer than 1,000,000 bytes"),
        ("run @<(printf '\\xff')", "not UTF-8"),
        ("run @/", "cannot be read: Is a directory"),
    ],
)
def test_a_task_that_cannot_be_one_is_refused(tmp_path: Path, line: str, said: str) -> None:
    done = shell(f"{sys.executable} -m patchyard {line}", tmp_path / "home")
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_the_word_json_alone_asks_for_no_object(tmp_path: Path) -> None:
    done = shell(f"{sys.executable} -m patchyard run json --format rich --zz", tmp_path / "home")
    assert (done.returncode, done.stdout) == (2, "")


def test_numbers_that_json_does_not_have_are_null() -> None:
    told = portable({"a": [math.nan, math.inf, -math.inf, 1.5], "b": 3})
    assert told == {"a": [None, None, None, 1.5], "b": 3}
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_details_are_lists_and_numbers_for_programs_and_not_their_text() -> None:
    told = error_data(UnknownName.among("agent", "x", ["recipe", "model"]))
    assert told is not None
    assert told["details"] == {"name": "x", "known": ["model", "recipe"]}
    odd = {"paths": ("a", Path("b")), "more": {1: 2.5, "is": True}, "nothing": None}
    told = error_data(PatchyardError("x", details=odd))
    assert told is not None
    plain = {"paths": ["a", "b"], "more": {"1": 2.5, "is": True}, "nothing": None}
    assert told["details"] == plain


def test_an_unknown_plan_has_the_code_that_the_documents_say(tmp_path: Path) -> None:
    line = f"{sys.executable} -m patchyard plan status 01ARZ3NDEKTSV4RRFFQ69G5FAV --format json"
    done = shell(line, tmp_path / "home")
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, "unknown_name")


def test_every_code_of_an_error_is_documented() -> None:
    for module in pkgutil.walk_packages(patchyard.__path__, "patchyard."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    known, left = set(), [PatchyardError]
    while left:
        kind = left.pop()
        known.add(kind.code)
        left += kind.__subclasses__()
    page = Path(__file__).parents[2] / "docs/reference/results.md"
    rows = [line for line in page.read_text().splitlines() if line.startswith("| `")]
    assert known <= {row.split("`")[1] for row in rows}
