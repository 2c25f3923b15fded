"""What people see: lines, the moving line, the final screen; and what programs get."""

import json
from dataclasses import replace
from typing import Any

import pytest

from patchyard.cli.json_lines import JsonLines
from patchyard.cli.live import Pulse
from patchyard.cli.outcome import visible
from patchyard.cli.plan_shell import exit_code_in
from patchyard.cli.progress import CALL_SHOWN, ERROR_SHOWN, OUTPUT_LINE, SpokenLines
from patchyard.cli.screen import FILES_SHOWN, plan_screen
from patchyard.cli.working import announce, watching
from patchyard.domain.budget import PlanLimits
from patchyard.domain.changeset import Base
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.events import (
    BaseRecorded,
    Body,
    ChangeSetCaptured,
    Event,
    InvariantChecked,
    Moved,
    Noted,
    Resumed,
    SetupFinished,
    StrategyRecorded,
    ToolCallRequested,
    ToolCallSettled,
    TurnRequested,
    TurnTaken,
    Validated,
)
from patchyard.domain.failover import ModelSwitched
from patchyard.domain.invariant import Scope
from patchyard.domain.plan import Phase, PlanSpec, State
from patchyard.domain.removal import RemovalProven
from patchyard.domain.review import Reviewed, Verdict
from patchyard.engine.capture import PROOF_FAILED

BASE = Base(
    repository="/r", store="/s", commit="1a2b3c4d5e", branch="main", tree="t", uncommitted=3
)
CALLED = ToolCallRequested(
    call_id="C",
    turn=1,
    ref="r",
    name="execute_command",
    arguments=Body(value={"command": "pytest\x1b[31m -q\nmore"}),
    environment_id="E",
    kind=ExecutionEnvironment.PROCESS,
)


def spoken(*events: Event, kind: ExecutionEnvironment | None = None) -> list[str]:
    lines = SpokenLines(opening="plan P", kind=kind)
    written: list[str] = []
    lines.write = written.append
    for event in events:
        lines(event)
    lines.flush()
    return written


def test_a_long_command_is_cut_with_a_sign() -> None:
    for length, shown in ((CALL_SHOWN, "x" * CALL_SHOWN), (500, "x" * (CALL_SHOWN - 1) + "…")):
        *_, line = spoken(replace(CALLED, arguments=Body(value={"command": "x" * length})))
        assert line == f"  → execute_command {shown} in process"


def test_the_base_with_its_uncommitted_files_is_the_first_line() -> None:
    begun = Moved(phase=Phase.STRATEGIZE, state=State.PROCESSING)
    lines = spoken(begun, BaseRecorded(base=BASE))
    assert lines[0] == "base: main@1a2b3c4 + 3 uncommitted files"
    assert lines[1] == "plan P"


def test_what_the_base_lacks_of_the_checkout_is_named_with_it() -> None:
    lacking = ["a/b c", "two\nlines", "d", "e", "f"]
    shown = "a/b c, 'two\\nlines', d and 2 more"
    (line, *_) = spoken(BaseRecorded(base=replace(BASE, left_out=tuple(lacking))))
    assert line == f"base: main@1a2b3c4 + 3 uncommitted files, without {shown}"
    base = {**sample()["base"], "left_out": lacking}
    assert f"+ 1 uncommitted file, without {shown}" in plan_screen(sample(base=base))


def test_what_is_not_confined_is_said_in_the_first_line() -> None:
    lines = spoken(BaseRecorded(base=BASE), kind=ExecutionEnvironment.HOST)
    assert "not confined" in lines[0]


def test_output_is_shown_in_whole_lines_escaped_and_before_what_follows() -> None:
    lines = SpokenLines()
    written: list[str] = []
    lines.write = written.append
    lines.output("stdout", "one\r\ntw")
    lines.output("stderr", "oh\x1b[31m\n")
    lines.output("stdout", "o")
    lines(ToolCallSettled(call_id="C", success=False, message="no", error="TIMEOUT"))
    assert written[:3] == ["    │ one", "    │ oh\\x1b[31m", "    │ two"]
    assert "TIMEOUT" in written[3]
    lines.output("stdout", "x" * (OUTPUT_LINE + 1))
    assert len(written) == 5


def test_a_cure_at_the_end_of_what_is_said_is_never_cut_off() -> None:
    said = f"{'x' * 300}; do this"
    line = spoken(ToolCallSettled(call_id="C", success=False, message=said, error="E"))[-1]
    assert line == f"    E {said}"
    said = f"{'y' * 5000}; do this"
    long = spoken(ToolCallSettled(call_id="C", success=False, message=said))[-1]
    assert len(long) < ERROR_SHOWN + 50
    assert long.endswith("y; do this")


def test_output_is_a_line_of_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLines(plan_id="P").output("stderr", "oh\n")
    told = json.loads(capsys.readouterr().out)
    assert (told["event"], told["stream"], told["text"]) == ("Output", "stderr", "oh\n")


def test_a_program_is_told_the_plan_before_its_object(capsys: pytest.CaptureFixture[str]) -> None:
    with watching("P", is_json=True, stream=True, spoken=SpokenLines(opening="plan P")):
        assert capsys.readouterr() == ("", "plan P\n")


def test_an_event_keeps_the_time_at_which_it_happened(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLines(plan_id="P")(TurnRequested(turn=1), at=12.5)
    told = json.loads(capsys.readouterr().out)
    assert (told["at"], told["plan_id"]) == (12.5, "P")


def test_the_first_line_for_programs_names_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    spec = PlanSpec(task="x", repository="/r")
    with watching("P", is_json=True, stream=True) as watched:
        announce(watched, spec, BASE)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["event"], first["plan_id"]) == ("PlanCreated", "P")
    assert (second["event"], second["plan_id"]) == ("BaseRecorded", "P")


def test_a_broken_invariant_is_no_failed_proof() -> None:
    passed = Validated(round=1, changeset_id="c", tree="t", passed=True, results=Body())
    assert (
        "an invariant does not hold" in spoken(passed, TurnRequested(turn=2, note=PROOF_FAILED))[-1]
    )


def test_a_broken_invariant_is_no_failed_proof_where_no_gate_is_set() -> None:
    broken = InvariantChecked(text="t", scope=Scope.GLOBAL, when="after", passed=False)
    again = TurnRequested(turn=2, note=PROOF_FAILED)
    assert "an invariant does not hold" in spoken(broken, again)[-1]
    failed = Validated(round=1, changeset_id="c", tree="t", passed=False, results=Body())
    assert "proof" in spoken(broken, failed, again)[-1]


def test_control_characters_of_others_never_reach_the_terminal() -> None:
    (line,) = [text for text in spoken(CALLED) if "execute_command" in text]
    assert "\x1b" not in line
    assert "\\x1b[31m" in line
    assert visible("a\u202eb\udcff\x07\ttab\n") == "a\\u202eb\\xff\\x07\ttab\n"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            ToolCallSettled(call_id="C", success=False, message="no\nway", error="TIMEOUT"),
            "TIMEOUT",
        ),
        (TurnRequested(turn=2, note=PROOF_FAILED), "failed: back to the actor"),
        (TurnRequested(turn=2, note="add a\ntest"), "to the actor: add a"),
        (Reviewed(verdict=Verdict.REQUEST_CHANGES, findings=2), "request changes, 2 findings"),
        (RemovalProven(subject="commit 1", tree="t", noticed=("a",)), "fails, as it should: a"),
        (RemovalProven(subject="commit 1", tree="t"), "without commit 1: passes too"),
        (ModelSwitched(from_model="a:1", to_model="b:2", message="gone"), "b:2 goes on: gone"),
        (SetupFinished(key="k", layer="/l", is_cached=True), "layer found"),
        (SetupFinished(key="k", layer="/l", is_cached=False, commands=("a",)), "1 command"),
        (StrategyRecorded(summary="first\nsecond", decision_root_id="D"), "plan: first"),
        (
            ChangeSetCaptured(
                changeset_id="cs",
                base_tree="a",
                tree="b",
                files=2,
                added=3,
                removed=1,
                findings=0,
                body=Body(),
            ),
            "2 files, +3 -1",
        ),
        (
            Validated(round=1, changeset_id="c", tree="t", passed=False, results=Body(value=[])),
            "failed",
        ),
        (Noted(text="by the way"), "by the way"),
        (Moved(phase=Phase.EXECUTE, state=State.ERRORED, reason="boom"), "errored: boom"),
    ],
)
def test_each_event_that_matters_has_its_line(event: Event, said: str) -> None:
    assert any(said in line for line in spoken(event))


def test_the_line_of_a_call_shows_its_path_wherever_the_model_put_it() -> None:
    body = Body(value={"content": "much text", "path": "sub/x.txt"})
    asked = replace(CALLED, name="write_file", arguments=body)
    (line,) = [text for text in spoken(asked) if "write_file" in text]
    assert line == "  → write_file sub/x.txt in process"


def test_a_call_that_an_earlier_life_left_running_is_said_once_it_is_waited_for() -> None:
    lines = SpokenLines(running=["execute_command"])
    written: list[str] = []
    lines.write = written.append
    lines(Resumed(process=1))
    assert written == ["  taken up again: execute_command"]
    lines(Resumed(process=1))
    assert len(written) == 1


def test_a_reason_that_only_repeats_the_state_is_left_out() -> None:
    moved = Moved(phase=Phase.EXECUTE, state=State.CANCELLED, reason="cancelled")
    assert spoken(moved)[-1] == "execute: cancelled"


def test_what_went_well_is_not_repeated() -> None:
    assert spoken(ToolCallSettled(call_id="C", success=True, message="fine")) == ["plan P"]


def test_the_moving_line_says_what_is_waited_for_and_what_was_spent() -> None:
    pulse = Pulse(limits=PlanLimits(usd=5.0, steps=10))
    pulse.take(Moved(phase=Phase.EXECUTE, state=State.PROCESSING))
    pulse.take(TurnRequested(turn=1))
    assert pulse.line() == "execute · step 0 of 10 · waits for the actor, 0 s"
    taken = TurnTaken(
        turn=1, note="", body=Body(), usd=0.5, input_tokens=1000, output_tokens=57, asked_model=True
    )
    pulse.take(taken)
    pulse.take(CALLED)
    line = pulse.line()
    assert "step 1 of 10 · waits for execute_command in process, 0 s" in line
    assert "1,057 tokens · 0.5000 of 5 USD" in line


def sample(**more: Any) -> dict[str, Any]:
    return {
        "plan_id": "01J",
        "phase": "execute",
        "state": "complete",
        "base": {"branch": None, "commit": "1a2b3c4d", "uncommitted": 1, "left_out": []},
        "summary": "",
        "strategy": {"summary": "thus\nand so"},
        "changed": True,
        "changeset": {
            "counts": {"files": 1, "added": 1, "removed": 0},
            "files": [{"path": "a\nb", "status": "added", "added": 1}],
        },
        "validation": [],
        "reach": {
            "kind": "host",
            "network": {"summary": "none"},
            "secrets": [],
            "mounts": ["/m:ro"],
        },
        "journal_head": "3f0c",
        "workflow": [],
        "cost": {
            "usd": None,
            "tokens": 12,
            "steps": 1,
            "seconds": 1.0,
            "limits": {"usd": 5.0},
        },
        **more,
    }


def test_the_screen_names_the_walls_that_a_host_carries() -> None:
    reach = {**sample()["reach"], "kind": "ssh", "walls": "process"}
    assert "ssh (process), network: none" in plan_screen(sample(reach=reach))
    assert "unconfined" not in plan_screen(sample(reach=reach))


def test_the_screen_names_the_kinds_that_single_tools_go_to() -> None:
    reach = {**sample()["reach"], "kind": "process", "also": ["container", "ssh"]}
    assert "process, single tools in container, ssh, network: none" in plan_screen(
        sample(reach=reach)
    )


def test_the_screen_shows_base_changes_reach_and_the_next_commands() -> None:
    screen = plan_screen(sample())
    for said in (
        "detached@1a2b3c4 + 1 uncommitted file",
        "thus",
        "1 file, +1 -0",
        "host, unconfined",
        "mounts: /m:ro",
        "price unknown",
        "unproven",
        "agents plan diff 01J",
    ):
        assert said in screen


def test_the_screen_shows_proof_before_and_after_and_the_output_of_what_fails() -> None:
    gate = {
        "command": "pytest -q",
        "passed": False,
        "exit_code": 1,
        "output": "E assert 1 == 2",
        "before": {"passed": True, "exit_code": 0},
    }
    data = sample(
        validation=[gate],
        touched_proof=["tests/test_a.py"],
        findings=[{"path": ".envrc", "message": "runs by itself"}],
        state="constrained",
        error_message="it fails",
    )
    screen = plan_screen(data)
    for said in (
        "pytest -q: pass → fails (1)",
        "E assert 1 == 2",
        "the proof goes by these changed files: tests/test_a.py",
        ".envrc: runs by itself",
        "it fails",
        "agents plan resume 01J",
    ):
        assert said in screen


def test_a_long_list_of_files_is_cut_and_says_so() -> None:
    files = [{"path": f"f{n}", "status": "modified"} for n in range(FILES_SHOWN + 5)]
    counts = {"files": len(files), "added": 0, "removed": 0}
    assert "… and 5 more" in plan_screen(sample(changeset={"counts": counts, "files": files}))


def test_an_empty_change_set_and_an_applied_one_are_said() -> None:
    assert "none" in plan_screen(sample(changed=False))
    applied = plan_screen(sample(applied={"to": "branch"}, state="applied"))
    assert "agents plan unapply 01J" in applied
    back = plan_screen(sample(state="applied"))
    assert "agents plan diff 01J   (what was applied is taken back)" in back
    assert "taken back" not in plan_screen(sample())
    placed = {"to": "patch", "reference": "/r/01J.patch"}
    assert "patch (/r/01J.patch)" in plan_screen(sample(applied=placed, state="applied"))


def test_the_next_commands_are_those_that_work_now() -> None:
    taken_back = plan_screen(sample(phase="apply", state="applied", applied=None))
    assert "agents plan apply 01J" in taken_back
    steps = {"code": "limit", "limit_name": "steps"}
    limited = plan_screen(sample(state="constrained", error_details=steps))
    raised = limited.index("agents plan limit 01J --max-steps +100 ")
    assert raised < limited.index("agents plan resume 01J")
    shared = {"code": "limit", "setting": "budget.day_usd"}
    bounded = plan_screen(sample(state="constrained", error_details=shared))
    assert bounded.index("raise budget.day_usd") < bounded.index("agents plan resume 01J")
    assert "plan limit" not in bounded
    red = plan_screen(sample(state="constrained", error_details={"code": "validation_failed"}))
    assert red.index("agents plan diff 01J") < red.index("agents plan resume 01J")
    cure = "x" * 300
    stopped = sample(state="errored", error_message="no", error_details={"hint": cure})
    assert f"stopped  no\n  cure     {cure}\n" in plan_screen(stopped)
    findings = [{"path": ".envrc", "message": "runs by itself"}]
    assert "--allow-path" in plan_screen(sample(findings=findings))


def test_no_name_and_no_message_can_forge_a_row_of_the_screen() -> None:
    forged = "x\n  proof    pytest -q: fails (1) → pass"
    files = [{"path": forged, "status": "added"}]
    counts = {"files": 1, "added": 0, "removed": 0}
    found = [{"path": forged, "message": "is odd"}]
    more = {"touched_proof": [forged], "findings": found, "error_message": forged}
    screen = plan_screen(sample(changeset={"counts": counts, "files": files}, **more))
    assert "\n  proof    pytest" not in screen
    assert screen.count("\\n  proof    pytest") == 3


def test_the_screen_says_which_invariants_held_before_and_after() -> None:
    checked = [
        {"text": "a stays", "scope": "global", "when": "before", "passed": True},
        {"text": "a stays", "scope": "global", "when": "after", "passed": False},
        {"text": "b", "scope": "project", "when": "before", "passed": True},
    ]
    screen = plan_screen(sample(strategy={"summary": "", "invariants": checked}))
    assert "a stays: holds → does not hold" in screen
    assert "b: holds\n" in screen


@pytest.mark.parametrize(
    ("code", "ends"),
    [(0, 0), (3, 3), (255, 255), (256, 1), (-9, 1), (2**80, 1), (False, 1), ("0", 1), (None, 1)],
)
def test_a_shell_ends_with_a_code_that_a_program_can_end_with(code: Any, ends: int) -> None:
    assert exit_code_in({"exit_code": code}) == ends
