"""Each check of scripts/ finds what it is for, and nothing in what is right."""

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

import check_addresses
import check_commits
import check_docs
import check_exports
import check_locks
import check_pragmas
import check_ratchet
import check_registry
import check_requirements
import check_sizes
import check_test_names
import check_timings
import run_tests
from tree import ROOT, files


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_long_file_and_a_long_function_are_found(tmp_path: Path) -> None:
    body = "    x = 1\n" * 61
    path = _write(
        tmp_path, "long.py", f"def short():\n    pass\n\ndef long():\n{body}" + "\n" * 400
    )
    found = list(check_sizes.findings(path))
    assert len(found) == 2
    assert "long has 62 lines" in found[1]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("def f():\n    pass\n", "no __all__"),
        ("def f():\n    pass\nclass A:\n    pass\n__all__ = ['f']\n", "not in __all__: A"),
        ("def f():\n    pass\n__all__ = ['f', 'g']\n", "not there: g"),
        ("def f():\n    pass\nclass A:\n    pass\n__all__ = ['f', 'A']\n", "not sorted"),
        ("LIMIT = 1\ndef f():\n    pass\n__all__ = ['f']\n", "not in __all__: LIMIT"),
    ],
)
def test_exports_that_do_not_fit_are_found(tmp_path: Path, text: str, complaint: str) -> None:
    path = _write(tmp_path, "src/patchyard/part.py", text)
    (found,) = check_exports.findings(path, {("patchyard.part", "LIMIT")})
    assert complaint in found


def test_exports_that_fit_are_left_alone(tmp_path: Path) -> None:
    text = (
        "LIMIT = 1\ndef f2():\n    pass\ndef f10():\n    pass\n__all__ = ['LIMIT', 'f2', 'f10']\n"
    )
    path = _write(tmp_path, "src/patchyard/part.py", text)
    assert list(check_exports.findings(path, {("patchyard.part", "LIMIT")})) == []


@pytest.mark.parametrize(
    "subject",
    ["feat(engine): carry a plan", "fix(api)!: name the cure", "docs(decisions/0001): say why"],
)
def test_conventional_subjects_pass(subject: str) -> None:
    assert check_commits.finding(subject) is None


@pytest.mark.parametrize(
    "subject",
    [
        *("Update", "feat: no component", "feat(engine) no colon", "wip(engine): try something"),
        *("fix(cli): Capital letter", "fix(cli): ends with a stop.", "fix(cli): " + "long " * 30),
    ],
)
def test_other_subjects_are_found(subject: str) -> None:
    assert check_commits.finding(subject) is not None


def test_a_forbidden_word_is_found_with_its_line(tmp_path: Path) -> None:
    good = _write(tmp_path, "good.txt", "one\ntwo\n")
    bad = _write(tmp_path, "bad.txt", "one\nsee https://index.example/simple\n")
    found = list(check_addresses.findings([good, bad], {"index.example"}))
    assert found == [f"{bad}:2: names index.example"]


def test_the_checkout_is_a_path_of_the_machine_and_a_shared_place_is_not() -> None:
    assert check_addresses.machine_paths(Path("/srv/patchyard")) == {"/srv/patchyard"}
    assert check_addresses.machine_paths(Path("/data/me/it")) == {"/data/me/it", "/data/me/"}


def test_a_pragma_without_reason_or_with_a_used_one_is_found(tmp_path: Path) -> None:
    mark = "# pragma: no " + "cover"
    path = _write(tmp_path, "a.py", f"x = 1  {mark}\ny = 1  {mark}: r\nz = 1  {mark} - r\n")
    assert list(check_pragmas.findings([path])) == [
        f"{path}:1: no reason beside the pragma",
        f"the same reason in {path}:2, {path}:3: r",
    ]


def test_a_check_that_is_silenced_without_a_reason_is_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "import a  # noqa: E402 - it is made before\n"
        "import b  # noqa: E402\n"
        "c = a.c()  # type: ignore[no-untyped-call]  # of the library\n"
        "d = a.d()  # type: ignore[no-untyped-call]\n"
        'said = "# noqa"\n'
    )

    assert list(check_pragmas.silenced([path])) == [
        f"{path}:2: no reason beside # noqa: E402",
        f"{path}:4: no reason beside # type: ignore[no-untyped-call]",
    ]


def test_a_speed_that_a_test_asserts_is_found(tmp_path: Path) -> None:
    clock = "time.process_time()"
    lines = [f"assert {clock} - began < {bound}" for bound in ("0.1", "5  # why", "SOON_S")]
    text = "\n".join([*lines, f"assert {clock} < deadline", f"assert {clock} - began >= 0.01"])
    page = _write(tmp_path, "test_x.py", text)
    assert [each.split(": ")[0] for each in check_timings.findings([page])] == [
        f"{page}:1",
        f"{page}:2",
    ]


def test_a_guard_against_a_hang_that_a_busy_machine_trips_is_found(tmp_path: Path) -> None:
    guards = [
        f"async with asyncio.timeout({each}):" for each in ("0.3", "5", "59.5", "60", "wait_s")
    ]
    page = _write(tmp_path, "test_x.py", "\n".join([*guards, "process.wait(timeout=" + "9)"]))
    found = [each.split(": ")[0] for each in check_timings.findings([page])]
    assert found == [f"{page}:{line}" for line in (2, 3, 6)]


def test_two_test_files_of_one_name_are_found(tmp_path: Path) -> None:
    names = ("a/test_x.py", "b/test_x.py", "b/test_y.py", "a/conftest.py", "b/conftest.py")
    pages = [_write(tmp_path, name, "") for name in names]
    (found,) = check_test_names.findings(pages)
    assert found.startswith(f"{pages[1]}: {pages[0]} has this name")


def test_a_lock_without_hash_or_of_another_version_is_found(tmp_path: Path) -> None:
    lock = _write(tmp_path, "a.lock", "click==8.0 \\\n    --hash=sha256:00\n    # via x\n")
    assert check_locks.pins(lock.read_text()) == {"click": "8.0"}
    (found,) = check_locks.findings(lock, ["click>=8.1"])
    assert "make lock" in found
    lock.write_text("click==8.0\n")
    (found,) = check_locks.findings(lock, [])
    assert "not a pin with a hash" in found


def test_a_floor_that_falls_is_found() -> None:
    assert check_ratchet.finding(97.0, [90.0, 97.0]) is None
    assert check_ratchet.finding(96.9, [90.0, 97.0]) is not None


def test_the_floor_is_read_as_a_percentage() -> None:
    assert run_tests.floor("coverage_floor = 42.5\n") == 42.5


def test_an_adapter_outside_its_suite_is_found() -> None:
    named = {"ACTORS": {"a": "pathlib:Path", "b": "pathlib:Absent", "c": "patchyard.absent:X"}}
    found = list(check_registry.findings(named, "nothing here"))
    assert [line.partition(":")[0] for line in found] == ["ACTORS[a]", "ACTORS[b]", "ACTORS[c]"]
    assert "is in no tests/" in found[0]
    assert list(check_registry.findings({"ACTORS": {"a": "pathlib:Path"}}, "Path")) == []


def test_tables_of_a_registry_are_found_flat() -> None:
    registry = types.ModuleType("registry")
    vars(registry).update(ACTORS={"a": {"execute": "x:A"}, "b": "x:B"}, LIMIT=3, load=print)
    assert check_registry.tables(registry) == {"ACTORS": {"a.execute": "x:A", "b": "x:B"}}


def _page(rows: dict[str, str]) -> str:
    shown = dict.fromkeys(check_requirements.NUMBERS, "planned") | rows
    page = "".join(f"| {number} | theirs | ours | {cell} |\n" for number, cell in shown.items())
    defects = (f"| {number} | theirs | planned |\n" for number in check_requirements.DEFECTS)
    return page + "".join(defects)


def test_a_requirements_page_that_is_right_passes(tmp_path: Path) -> None:
    _write(
        tmp_path, "tests/test_x.py", "class TestA:\n    async def test_it(self):\n        pass\n"
    )
    _write(tmp_path, "features/x.feature", "Feature: x\n  Scenario: It works\n    Given y\n")
    _write(tmp_path, "robot/x.robot", "*** Test Cases ***\nIt Works\n    Log    x\n")
    rows = {
        "A1": "`tests/test_x.py::TestA::test_it`",
        "A2": "`features/x.feature: It works`, `robot/x.robot: It Works`",
    }
    assert list(check_requirements.findings(_page(rows), tmp_path)) == []


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        ("`tests/test_x.py::test_gone`", "has no 'test_gone'"),
        ("`tests/gone.py`", "does not exist"),
        ("surely", "neither a test"),
    ],
)
def test_a_proof_that_does_not_exist_is_found(tmp_path: Path, cell: str, complaint: str) -> None:
    _write(tmp_path, "tests/test_x.py", "def test_it():\n    pass\n")
    (found,) = check_requirements.findings(_page({"C16": cell}), tmp_path)
    assert found.startswith("C16: ")
    assert complaint in found


def test_a_number_left_out_or_doubled_is_found(tmp_path: Path) -> None:
    page = _page({}).replace("| E26 |", "| E25 |").replace("| D+11 |", "| D+10 |")
    found = set(check_requirements.findings(page, tmp_path))
    assert found == {
        *("E25 is listed twice", "E26 is not listed"),
        *("D+10 is not listed once", "D+11 is not listed once"),
    }


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    text = "[a](b.md) [c](gone.md#x) [d](https://x.invalid/) [e](#here) `[f](g)`"
    page = _write(tmp_path, "a.md", text)
    _write(tmp_path, "b.md", "")
    assert list(check_docs.broken_links(page)) == [f"{page}: leads nowhere: gone.md#x"]


def test_a_page_that_the_index_does_not_name_is_found(tmp_path: Path) -> None:
    _write(tmp_path, "index.md", "[a](how-to/a.md)")
    for name in ("a", "b"):
        _write(tmp_path, f"how-to/{name}.md", "text")
    place = tmp_path / "how-to/b.md"
    assert list(check_docs.orphans(tmp_path)) == [f"{place}: not in {tmp_path}/index.md"]


def test_only_examples_marked_so_are_run_and_failures_are_told(tmp_path: Path) -> None:
    text = "```sh\nexit 1\n```\n\n```sh run\ntrue\n```\n\n```python run\nraise SystemExit(3)\n```\n"
    page = _write(tmp_path, "a.md", text)
    assert [language for language, _ in check_docs.examples(page)] == ["sh", "python"]
    assert list(check_docs.failures(page)) == [f"{page}: example 2: exit 3: no message"]


def test_the_examples_of_a_page_go_on_from_each_other(tmp_path: Path) -> None:
    begun = "```sh run\nmkdir d && cd d\necho here >a\n```\n\nThen:\n\n"
    text = begun + "```python run\nopen('a').close()\n```\n\n```sh run\ngrep -q here a\n```\n"
    assert list(check_docs.failures(_write(tmp_path, "a.md", text))) == []


def test_examples_leave_their_workspaces_where_they_are_cleared_away(tmp_path: Path) -> None:
    text = '```sh run\ntest "$WORKSPACE_DIR" = "$(dirname "$HOME")/workspaces"\n```\n'
    assert list(check_docs.failures(_write(tmp_path, "a.md", text))) == []


def test_locks_of_this_tree_name_no_index() -> None:
    locks = files("requirements/*.lock")
    assert [lock.stem for lock in locks] == ["dev", "runtime"]
    for lock in locks:
        assert "://" not in lock.read_text(encoding="utf-8")


def _wants_packages(folder: Path, *, uid: int, python: str) -> "subprocess.CompletedProcess[str]":
    """The script on a machine that has nothing but an apt-get without a network."""
    _write(folder, "id", f"#!/bin/sh\necho {uid}\n").chmod(0o755)
    _write(folder, "apt-get", "#!/bin/sh\necho no network >&2\nexit 100\n").chmod(0o755)
    return subprocess.run(
        ["/bin/sh", str(ROOT / "scripts/system_packages.sh"), python, "teapot"],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": str(folder), "HOME": os.environ["HOME"]},
    )


@pytest.mark.parametrize("uid", [0, 1000])
def test_missing_system_packages_are_named_where_they_cannot_be_installed(
    tmp_path: Path, uid: int
) -> None:
    run = _wants_packages(tmp_path, uid=uid, python=sys.executable)
    assert run.returncode == 0
    assert "cure: sudo apt-get install bubblewrap ripgrep" in run.stderr
    assert "teapot" in run.stderr
    assert ("no network" in run.stderr) is (uid == 0)


def test_without_virtual_environments_nothing_goes_on(tmp_path: Path) -> None:
    bare = _write(tmp_path, "bare-python", "#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    run = _wants_packages(tmp_path, uid=0, python=str(bare))
    assert run.returncode == 1
    assert "python3-venv" in run.stderr
