"""`scripts/bench_turns.py`: two checkouts' measures side by side."""

import json
import os
import sys
from pathlib import Path

import pytest

import bench_turns
from bench_turns import Pair, figures, pairs

TABLE = """2026-11-25, Python 3.11.2, 2 cores
measure                                                  measured       target
agents --version                                             88 ms            -
a start in process (cold), two places                      1.5e+03 ms       300 ms  OVER
a start in vm                                                   -            -  not taken: no kernel
memory of 10 plans                                      0.5 MiB/plan        1 MiB/plan
what a failure adds to a call                          -4.6e-03 ms         1 ms
"""
BENCH = """
import sys
from pathlib import Path
turns = Path(__file__).with_name("turns")
with turns.open("a") as file:
    file.write("x")
count = len(turns.read_text())
print("a start", *sys.argv[1:], " ", {figure}, "ms", "   -")
print("that grows  ", count, "ms", "   -")
print("of one side{side}", count, "ms", "   -")
"""


def checkout(folder: Path, figure: str, side: str) -> Path:
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts/bench.py").write_text(BENCH.format(figure=figure, side=side))
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/python").symlink_to(sys.executable)
    return folder


def run(monkeypatch: pytest.MonkeyPatch, here: Path, *words: str) -> int:
    monkeypatch.setattr(bench_turns, "ROOT", here)
    monkeypatch.setattr(sys, "argv", ["bench_turns.py", *words])
    return bench_turns.main()


def test_a_table_is_read_by_label_with_figure_and_unit() -> None:
    assert figures(TABLE) == {
        "agents --version": (88.0, "ms"),
        "a start in process (cold), two places": (1500.0, "ms"),
        "memory of 10 plans": (0.5, "MiB/plan"),
        "what a failure adds to a call": (-0.0046, "ms"),
    }


def test_a_measure_is_slower_where_its_median_lies_above_all_of_the_other() -> None:
    def slower(*ours: float) -> bool:
        return Pair(label="a", unit="ms", ours=ours, theirs=(1.0, 2.0, 4.0)).is_slower

    assert not slower(9.0, 4.0, 1.0)
    assert slower(9.0, 4.1, 1.0)


def test_only_what_each_turn_took_in_both_with_one_unit_is_compared() -> None:
    ours = [{"a": (1.0, "ms"), "b": (1.0, "ms"), "c": (1.0, "ms")}, {"a": (3.0, "ms")}]
    theirs = [{"a": (2.0, "ms"), "b": (1.0, "ms"), "c": (1.0, "s")}] * 2
    (pair,) = pairs(ours, theirs)
    assert (pair.label, pair.ours, pair.theirs, pair.ratio) == ("a", [1.0, 3.0], [2.0, 2.0], 1.0)


def test_both_are_measured_by_turns_and_what_is_slower_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = checkout(tmp_path / "here", "20", "")
    there = checkout(tmp_path / "there", "10", "")
    assert run(monkeypatch, here, str(there), "cold", "--turns", "3") == 1
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[:2] + row.split()[-3:] for row in rows] == [
        ["a", "start", "2.00", "ms", "SLOWER"],
        ["that", "grows", "3", "1.00", "ms"],
        ["of", "one", "3", "1.00", "ms"],
    ]
    assert "cold" in rows[0]
    assert len((here / "scripts/turns").read_text()) == 3


def test_a_measure_of_one_side_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = checkout(tmp_path / "here", "10", " (ours)")
    there = checkout(tmp_path / "there", "10", "")
    assert run(monkeypatch, here, str(there), "--turns", "1") == 1
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if line.endswith("not taken in each turn of both")]
    assert "SLOWER" not in said


def test_turns_are_kept_in_a_folder_that_was_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = checkout(tmp_path / "here", "10", "")
    there = checkout(tmp_path / "there", "10", "")
    kept = tmp_path / "build/more/turns"
    run(monkeypatch, here, str(there), "--kept", str(kept), "--turns", "1")
    assert len(kept.read_text().splitlines()) == 1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="each side has a processor")
def test_both_at_once_swap_their_processors_and_kept_turns_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = "sum(2**each for each in __import__('os').sched_getaffinity(0))"
    here = checkout(tmp_path / "here", where, "")
    there = checkout(tmp_path / "there", where, "")
    kept = tmp_path / "kept"
    words = (str(there), "--at-once", "--kept", str(kept))
    run(monkeypatch, here, *words, "--turns", "1")
    run(monkeypatch, here, *words, "--turns", "2")
    assert len((here / "scripts/turns").read_text()) == 2
    turns = [json.loads(line) for line in kept.read_text().splitlines()]
    (first, second) = [[side["a start"][0] for side in turn] for turn in turns]
    assert first == second[::-1]
    assert int(first[0]) & int(first[1]) == 0
    assert "that grows" in capsys.readouterr().out


def test_a_checkout_that_is_not_set_up_is_named_with_its_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, tmp_path, os.fspath(tmp_path / "none")) == 2
    assert f"make -C {tmp_path}/none setup" in capsys.readouterr().err
