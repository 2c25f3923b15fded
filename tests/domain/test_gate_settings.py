"""Gates in configurations: what is said, what is taken from those that come with us, mistakes."""

from typing import Any

import pytest

from patchyard.clients.yaml import parse_yaml
from patchyard.domain.codec import from_json, to_json
from patchyard.domain.effective import Layer, effective
from patchyard.domain.errors import UsageError
from patchyard.domain.faults import Fault
from patchyard.domain.gate_settings import gates_of
from patchyard.domain.gates import SCANS, Gate, Reach, Reads, Severity
from patchyard.domain.settings import Settings, parse_settings
from patchyard.domain.shipped_gates import SHIPPED


def one(entry: Any) -> Gate:
    found = gates_of({"g": entry}, ("gates",))["g"]
    assert found is not None
    return found


def test_a_name_alone_takes_one_that_comes_with_us() -> None:
    made = one("ruff")
    assert (made.name, made.reads) == ("g", Reads.SARIF)
    assert "ruff check" in made.command


def test_each_part_of_one_can_be_said() -> None:
    made = one(
        {
            "command": "scan --to out.json", "parser": "json", "report": "out.json",
            "mapping": {"items": "results.*", "rule": "id"}, "threshold": 3, "scope": "changed",
            "required": False, "timeout": "90s", "severity": "error", "repeats": 5,
            "from_base": ["rules/*"], "tests": True, "exit_codes": [3],
        }
    )  # fmt: skip
    assert made == Gate(
        name="g", command="scan --to out.json", reads=Reads.JSON, report="out.json",
        mapping={"items": "results.*", "rule": "id"}, threshold=3.0, scope=Reach.CHANGED,
        is_required=False, timeout_s=90.0, severity=Severity.ERROR, repeats=5,
        from_base=("rules/*",), is_tests=True, exit_codes=(0, 3),
    )  # fmt: skip
    assert from_json(Gate, to_json(made)) == made


def test_what_comes_with_us_can_be_changed_in_part() -> None:
    made = one({"use": "performance", "command": "make bench", "threshold": 2})
    assert (made.reads, made.repeats, made.allowed) == (Reads.TIME, 3, 2.0)


WRONG: list[tuple[str, Any, str]] = [
    ("no mapping", 7, "must be a mapping, not a number"),
    ("unknown name", "ruf", "ruf"),
    ("unknown use", {"use": "pytst"}, "pytest"),
    ("unknown key", {"comand": "x"}, "did you mean 'command'"),
    ("no command", {"parser": "sarif"}, "`command` is missing"),
    ("parser", {"command": "x", "parser": "sariff"}, "sarif"),
    ("scope", {"command": "x", "scope": "lines"}, "changed"),
    ("severity", {"command": "x", "severity": "fatal"}, "warning"),
    ("outside", {"command": "x", "parser": "sarif", "report": "../r"}, "inside the tree"),
    ("absolute", {"command": "x", "parser": "sarif", "report": "/tmp/r"}, "inside the tree"),
    ("twice", {"command": "x {report}", "report": "r", "parser": "sarif"}, "already"),
    ("threshold", {"command": "x", "parser": "sarif", "threshold": -1}, "0 or more"),
    ("nan", {"command": "x", "parser": "sarif", "threshold": float("nan")}, "0 or more"),
    ("exit threshold", {"command": "x", "threshold": 1}, "has none"),
    ("required", {"command": "x", "required": "yes"}, "true or false"),
    ("timeout", {"command": "x", "timeout": "soon"}, "not a duration"),
    ("no unit", {"command": "x", "timeout": 10}, "'10' has no unit write it like 90s or 10m"),
    ("no unit in a text", {"command": "x", "timeout": "10"}, "'10' has no unit"),
    ("percent", {"use": "coverage", "threshold": 300}, "must be a percentage, 100 at most"),
    ("repeats", {"command": "x", "repeats": 0}, "from 1 to 25"),
    ("exit codes", {"command": "x", "parser": "text", "exit_codes": [1, 126]}, "1 to 125"),
    ("exit code 0", {"command": "x", "parser": "text", "exit_codes": 0}, "0 always is"),
    ("no exit code", {"command": "x", "parser": "text", "exit_codes": True}, "whole numbers"),
    ("exit codes of none", {"command": "x", "exit_codes": [2]}, "where findings are read"),
    ("mapping key", {"command": "x", "parser": "json", "mapping": {"path": "a"}}, "file"),
    ("no mapping said", {"command": "x", "parser": "json"}, "`mapping` must say"),
    ("mapping unused", {"command": "x", "mapping": {"rule": "a"}}, "`parser: json` alone"),
    ("scan command", {"use": "secrets", "command": "x"}, "has no command"),
    ("placeholder", {"command": "x >{reprot}", "parser": "sarif"}, "{report} is where"),
    ("spaced", {"command": "x >{ report }", "parser": "sarif"}, "{ report } stands"),
    ("performance", "performance", "`command` is missing"),
]


@pytest.mark.parametrize(("name", "entry", "said"), WRONG, ids=[name for name, *_ in WRONG])
def test_a_mistake_is_named_with_its_place(name: str, entry: Any, said: str) -> None:
    del name
    with pytest.raises(Fault) as caught:
        one(entry)
    assert said in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.place[:2] == ("gates", "g")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", "x" * 64])
def test_a_name_is_one_word(name: str) -> None:
    with pytest.raises(Fault, match="cannot name a gate"):
        gates_of({name: "ruff"}, ("gates",))


@pytest.mark.parametrize("braces", ["{report}", "${reports}", "{}", "{print}", "{a,report}"])
def test_braces_of_the_shell_and_of_others_are_no_mistake(braces: str) -> None:
    assert braces in str(one({"command": f"x {braces}", "parser": "sarif"}))


def test_a_mistake_in_a_file_has_line_and_column_and_a_duplicate_is_refused() -> None:
    document = parse_yaml(b"gates:\n  tests:\n    use: pytst\n", name="config.yaml")
    with pytest.raises(Fault) as caught:
        parse_settings(document.value)
    error = document.refused(caught.value)
    assert "config.yaml:3" in f"{error.message} {error.details}"
    assert "pytest" in f"{error.message} {error.hint}"
    with pytest.raises(UsageError, match=r"config\.yaml:3"):
        parse_yaml(b"gates:\n  a: ruff\n  a: mypy\n", name="config.yaml")
    with pytest.raises(Fault, match="must be a mapping of names"):
        parse_settings({"gates": ["ruff"]})


def test_gates_of_all_places_are_put_together_and_the_first_to_name_one_decides() -> None:
    above = Settings(gates=gates_of({"lint": False, "types": "tsc"}, ()))
    below = Settings(gates=gates_of({"lint": "ruff", "types": "mypy", "tests": "pytest"}, ()))
    layers = [Layer(origin="user", settings=above), Layer(origin="repo", settings=below)]
    setting = effective(layers)["gates"]
    assert {gate.name: gate.reads for gate in setting.value} == {
        "types": Reads.TEXT,
        "tests": Reads.JUNIT,
    }
    assert setting.origin == "user, repo"


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_each_that_comes_with_us_says_how_it_is_run_and_what_cures_its_absence(name: str) -> None:
    gate = SHIPPED[name]
    assert gate.reads in SCANS or gate.cure
    assert gate.reads in SCANS or gate.command or name == "performance"
    assert from_json(Gate, to_json(gate)) == gate
