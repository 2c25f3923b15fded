"""Gates within a plan's rounds: what the actor is told, and what a mended result comes to."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite, call, done
from patchyard.cli.gate_rows import gate_lines
from patchyard.domain.errors import ProofFailed
from patchyard.domain.events import TurnRequested, Validated
from patchyard.domain.gate_findings import GateFinding
from patchyard.domain.patch_lines import Lines
from patchyard.domain.plan import State
from patchyard.engine.gating import UNREAD
from patchyard.engine.report import plan_data
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow
from patchyard.validators.secrets import SecretScanner

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

# A linter of our own: every line with BAD is a finding, every line with WORSE crashes it.
LINTER = """
import json, pathlib, sys
found = [
    {"file": str(path), "line": number, "rule": "bad", "message": line}
    for path in sorted(pathlib.Path().glob("*.txt"))
    for number, line in enumerate(path.read_text().splitlines(), 1)
    if "BAD" in line
]
if any("WORSE" in path.read_text() for path in pathlib.Path().glob("*.txt")):
    sys.exit("crashed")
print(json.dumps(found))
"""
MAPPING = {key: key for key in ("file", "line", "rule", "message")}
GATE = {"command": "python3 lint.py", "parser": "json", "mapping": MAPPING, "from_base": "lint.py"}


@pytest.fixture
def files() -> dict[str, str]:
    return {"a.txt": "one\nBAD old\n", "lint.py": LINTER}


async def carried_out(
    site: Worksite, *replies: Any, rounds: int = 0, **gate: Any
) -> tuple[dict[str, Any], list[Any], Exception | None]:
    heard: list[Any] = []
    failed: Exception | None = None
    more = gate.pop("more", {})
    entry = gate if gate.pop("only", False) else {**GATE, **gate}
    config = json.dumps({"gates": {"lint": entry, **more}})
    (site.repository / ".patchyard").mkdir()
    (site.repository / ".patchyard/config.yaml").write_text(config)
    async with site.open() as (equipment, _):
        workflow = Workflow(equipment, watching=Watching(on_event=heard.append))
        plan_id = await site.made(workflow, site.asked(*replies, rounds=rounds))
        try:
            await workflow.run(plan_id)
        except ProofFailed as error:
            failed = error
        data = await plan_data(await site.ledger(equipment, plan_id))
    return data, heard, failed


def written(content: str) -> Any:
    return call("write_file", path="a.txt", content=content)


def places(row: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
    return [(each["path"], each["line"]) for each in row["findings"]]


async def test_what_a_gate_finds_goes_back_to_the_actor_who_mends_it(site: Worksite) -> None:
    data, heard, failed = await carried_out(
        site, written("BAD new\nBAD old\n"), done("tried"), written("good\nBAD old\n"), rounds=1
    )
    assert failed is None
    assert data["state"] == State.COMPLETE
    assert [event.passed for event in heard if isinstance(event, Validated)] == [False, True]
    (note,) = [event.note for event in heard if isinstance(event, TurnRequested) and event.note]
    assert "The gate `lint` fails" in note
    assert "a.txt:1: bad: BAD new" in note
    assert "BAD old" not in note
    (row,) = data["validation"]
    assert (row["old"], row["new"], row["before"]["passed"]) == (1, 0, False)


async def test_an_actor_that_edits_the_linter_itself_is_judged_by_the_old_one(
    site: Worksite,
) -> None:
    data, _, failed = await carried_out(
        site, written("BAD new\n"), call("write_file", path="lint.py", content="print('[]')\n")
    )
    assert isinstance(failed, ProofFailed)
    assert "the gate fails on the result: lint: a.txt:1: bad" in failed.message
    assert places(failed.details) == [("a.txt", 1)]
    assert data["held_from_base"] == ["lint.py"]


async def test_an_actor_that_edits_where_a_link_of_the_linter_leads_is_judged_by_the_old_one(
    site: Worksite,
) -> None:
    (site.repository / "tools").mkdir()
    (site.repository / "lint.py").rename(site.repository / "tools/check.py")
    (site.repository / "lint.py").symlink_to("tools/check.py")
    edited = call("write_file", path="tools/check.py", content="print('[]')\n")
    data, _, failed = await carried_out(site, written("BAD new\n"), edited)
    assert isinstance(failed, ProofFailed)
    assert data["held_from_base"] == ["tools/check.py"]


async def test_a_protected_glob_holds_for_what_its_folder_links_to(site: Worksite) -> None:
    (site.repository / "db").symlink_to("store")
    edited = call("write_file", path="store/v1.sql", content="x\n")
    (site.repository / ".patchyard").mkdir()
    (site.repository / ".patchyard/config.yaml").write_text('{"protected_paths": ["db/*"]}')
    async with site.open() as (equipment, _):
        workflow = Workflow(equipment)
        plan_id = await site.made(workflow, site.asked(edited))
        await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert "store/v1.sql" in json.dumps(data["findings"])


async def test_a_gate_that_crashes_on_the_result_stops_it_and_an_advisory_one_does_not(
    site: Worksite,
) -> None:
    data, _, failed = await carried_out(site, written("WORSE\n"), required=False)
    assert failed is None
    (row,) = data["validation"]
    assert (row["status"], row["passed"], row["required"]) == ("broken", False, False)
    assert data["proven_tree"] == data["changeset"]["tree"]


async def test_a_base_on_which_the_gate_crashes_makes_all_findings_new(site: Worksite) -> None:
    (site.repository / "b.txt").write_text("WORSE\n")
    data, _, failed = await carried_out(
        site, call("delete_file", path="b.txt"), call("write_file", path="c.txt", content="x\n")
    )
    assert isinstance(failed, ProofFailed)
    (row,) = data["validation"]
    assert places(row) == [("a.txt", 2)]
    assert "the base cannot be compared with" in row["notes"][0]


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        ({"command": "no-such-tool --json"}, "its tool is not there"),
        ({"command": "python3 -m no_such_tool"}, "its command ended with 1"),
        ({"mapping": {"rule": "code"}, "command": "python3 lint.py; exit 1"}, "report is clean"),
        ({"only": True, "use": "audit"}, "advisories"),
    ],
)
async def test_what_no_actor_can_mend_stops_the_plan_at_once(
    gate: dict[str, Any], said: str, site: Worksite
) -> None:
    lock = call("write_file", path="requirements.txt", content="six==1.16.0\n")
    work = [written("good\n"), lock, done("tried"), written("better\n")]
    data, heard, failed = await carried_out(site, *work, rounds=2, **gate)
    assert isinstance(failed, ProofFailed)
    assert "the gate lint says nothing, on the base as little as on the result" in failed.message
    assert said in failed.message
    assert failed.hint
    assert [event.passed for event in heard if isinstance(event, Validated)] == [False]
    assert data["state"] == State.CONSTRAINED
    assert not [event for event in heard if isinstance(event, TurnRequested) and event.note]


async def test_an_error_names_all_gates_that_fail(site: Worksite) -> None:
    more = {"never": {"command": "test -e never"}, "always": {"command": "true"}}
    _, _, failed = await carried_out(site, written("BAD new\n"), more=more)
    assert isinstance(failed, ProofFailed)
    said = "2 of 3 gates fail on the result: lint: a.txt:1: bad: BAD new; never"
    assert failed.message == said


async def test_an_absent_gate_of_ones_own_has_a_cure_and_a_scan_lacks_no_tool(
    site: Worksite,
) -> None:
    lock = call("write_file", path="requirements.txt", content="six==1.16.0\n")
    gone: dict[str, Any] = {"command": "no-such-tool", "required": False}
    more = {"deps": {"use": "audit", "required": False}}
    data, _, failed = await carried_out(site, lock, only=True, more=more, **gone)
    assert failed is None
    own, audit = data["validation"]
    assert own["cure"].startswith("install its tool")
    assert "osv.dev" in audit["cure"]
    assert "its tool is missing (advisory)" in gate_lines(own)[0]
    assert "has nothing to go by (advisory)" in gate_lines(audit)[0]


async def test_a_scan_that_takes_longer_than_its_time_stops_and_says_so(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(self: SecretScanner, lines: Mapping[str, Lines]) -> Sequence[GateFinding]:
        del self, lines
        time.sleep(0.5)
        return ()

    monkeypatch.setattr(SecretScanner, "scan", slow)
    more = {"keys": {"use": "secrets", "timeout": "0.1s"}}
    data, _, failed = await carried_out(site, written("good\n"), more=more)
    assert isinstance(failed, ProofFailed)
    row = next(row for row in data["validation"] if row["name"] == "keys")
    assert (row["status"], row["problem"]) == ("broken", UNREAD)


async def test_a_test_command_without_any_test_yet_goes_back_to_the_actor(site: Worksite) -> None:
    gate = {"only": True, "command": "python3 -m unittest -q; python3 -c 'import calc'"}
    work = [written("good\n"), done("tried"), call("write_file", path="calc.py", content="")]
    test = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"
    work.append(call("write_file", path="test_a.py", content=test))
    _, _, failed = await carried_out(site, *work, rounds=1, **gate)
    assert failed is None


async def test_a_change_of_nothing_is_judged_by_the_base_alone(site: Worksite) -> None:
    data, _, failed = await carried_out(site, call("read_file", path="a.txt"), done("same"))
    assert failed is None
    (row,) = data["validation"]
    assert (row["status"], row["old"]) == ("passed", 1)


async def test_the_actor_hears_how_many_more_there_are_and_what_a_mere_exit_says(
    site: Worksite,
) -> None:
    many = "".join(f"BAD {number}\n" for number in range(60))
    work = [
        written(many),
        call("execute_command", command="printf '\\0BAD\\n' > z.txt; echo 2 > test_x.py"),
        done("tried"),
        written("BAD old\n"),
        call("execute_command", command="rm z.txt; git checkout -q test_x.py 2>/dev/null; true"),
        call("write_file", path="test_x.py", content="1\n"),
    ]
    (site.repository / "test_x.py").write_text("1\n")
    more = {
        "exit": {"command": "echo no luck; test ! -e z.txt"},
        "tests": {"command": "test $(cat test_x.py) = 2 || test ! -e z.txt", "tests": True},
    }
    data, heard, failed = await carried_out(site, *work, rounds=1, more=more)
    assert failed is None, failed
    assert data["state"] == State.COMPLETE
    (note,) = [event.note for event in heard if isinstance(event, TurnRequested) and event.note]
    assert "... and 11 more" in note
    assert "no luck" in note
    assert "mend the code, not the tests" in note


async def test_settings_that_cannot_be_put_together_are_the_bases_whole_file(
    site: Worksite,
) -> None:
    (site.repository / "pyproject.toml").write_text("[tool.x]\na = 1\n")
    check = "grep -q 'a = 1' pyproject.toml && ! grep -q dotted pyproject.toml"
    data, _, failed = await carried_out(
        site,
        call("write_file", path="pyproject.toml", content="tool.x.a = 2 # dotted\n"),
        call("write_file", path="sub/pyproject.toml", content="tool.x.a = 2 # dotted\n"),
        call("execute_command", command="head -c 5000000 /dev/zero | tr '\\0' x > package.json"),
        more={"settings": {"command": f"{check} && ! test -e package.json"}},
    )
    assert failed is None, failed
    assert data["held_from_base"] == ["package.json", "pyproject.toml", "sub/pyproject.toml"]


OSV = {
    "id": "GHSA-1",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "shop"},
            "ranges": [{"events": [{"introduced": "0"}, {"fixed": "2"}]}],
        }
    ],
}


@pytest.mark.parametrize("has_advisories", [True, False])
async def test_a_pinned_package_with_a_known_hole_stops_the_plan_unless_the_base_has_it(
    site: Worksite, *, has_advisories: bool
) -> None:
    if has_advisories:
        folder = Path(site.environ["PATCHYARD_HOME"]) / "advisories"
        folder.mkdir(parents=True)
        (folder / "one.json").write_text(json.dumps(OSV))
    (site.repository / "old-requirements.txt").write_text("shop==1.0\n")
    data, _, failed = await carried_out(
        site,
        call("write_file", path="old-requirements.txt", content="a==1\nshop==1.1\n"),
        call("write_file", path="sub/requirements.txt", content="a==1\nShop==1.9\n"),
        use="audit",
        only=True,
    )
    assert isinstance(failed, ProofFailed)
    (row,) = data["validation"]
    if has_advisories:
        assert [(f["path"], f["line"], f["rule"]) for f in row["findings"]] == [
            ("sub/requirements.txt", 2, "GHSA-1")
        ]
    else:
        assert (row["status"], row["findings"]) == ("absent", [])
        assert "osv.dev" in row["cure"]
