"""Which limit a command hit, how that is known, and how it is told."""

from typing import Any

import pytest

from patchyard.domain.environment import Limits
from patchyard.domain.limit_hits import Hit, hit_of, limit_in, sentence, told, watched_hit
from patchyard.domain.usage import Reading, Usage

LIMITS = Limits(
    memory_bytes=64, processes=32, cpu_seconds=5, file_bytes=100, open_files=10, output_bytes=50,
    temporary_bytes=70, disk_bytes=80, wall_s=9.0
)  # fmt: skip
UNCOUNTED = Reading()
COUNTED = Reading(ended_for_memory=1, refused_processes=2)


def hit(
    before: Reading = UNCOUNTED,
    after: Reading = UNCOUNTED,
    *,
    limits: Limits = LIMITS,
    usage: Usage | None = None,
    **said: Any,
) -> Hit | None:
    return hit_of(said, limits, before=before, after=after, usage=usage or Usage())


def test_what_a_control_group_counted_comes_first() -> None:
    usage = Usage(memory_bytes=60, processes=30)
    killed = Reading(ended_for_memory=2, refused_processes=2)
    found = hit(COUNTED, killed, usage=usage, exit_code=153, success=False)
    assert found == Hit(limit="memory", used=60, allowed=64, seen_by="cgroup")
    refused = Reading(ended_for_memory=1, refused_processes=5)
    found = hit(COUNTED, refused, usage=usage, success=True)
    assert found == Hit(limit="processes", used=30, allowed=32, seen_by="cgroup")
    assert hit(COUNTED, COUNTED, success=False, stderr="MemoryError fork: retry") is None


@pytest.mark.parametrize(
    ("code", "limit"),
    [(-25, "file_size"), (153, "file_size"), (-24, "cpu_time"), (152, "cpu_time")],
)
def test_a_signal_says_which_limit_it_was(code: int, limit: str) -> None:
    found = hit(exit_code=code, success=False)
    assert found is not None
    assert (found.limit, found.seen_by) == (limit, "signal")


@pytest.mark.parametrize("code", [0, 1, -9, 137, None, True, "153"])
def test_other_ends_say_nothing(code: Any) -> None:
    assert hit(exit_code=code, success=False) is None


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        ("OSError: [Errno 24] Too many open files: 'x'", "open_files"),
        ("write: File too large", "file_size"),
        ("bash: fork: retry: Resource temporarily unavailable", "processes"),
        ("RuntimeError: can't start new thread", "processes"),
        ("MemoryError", "memory"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "memory"),
        ("tee: /tmp/x: No space left on device", "temporary"),
    ],
)
def test_what_a_failed_program_prints_is_taken_where_nobody_counts(words: str, limit: str) -> None:
    found = hit(success=False, exit_code=1, stderr=words)
    assert found is not None
    assert (found.limit, found.seen_by) == (limit, "output")
    assert hit(success=True, exit_code=0, stdout=words) is None


def test_a_shell_that_goes_on_without_a_process_has_hit_the_limit_too() -> None:
    words = "sh: fork: retry: Resource temporarily unavailable"
    found = hit(success=True, exit_code=0, stderr=words)
    assert found == Hit(limit="processes", used=32, allowed=32, seen_by="output")
    assert hit(COUNTED, COUNTED, success=True, exit_code=0, stderr=words) is None


@pytest.mark.parametrize(
    ("cpu_s", "said", "seen_by"),
    [
        (5.0, {"success": True}, "usage"),
        (4.6, {"success": False, "exit_code": 1}, "usage"),
        (2.6, {"success": True, "stderr": "sh: 7 CPU time limit exceeded"}, "signal"),
        (4.6, {"success": False, "stdout": "died with <Signals.SIGXCPU: 24>"}, "signal"),
        (4.6, {"success": True}, ""),
        (2.4, {"success": False, "stderr": "CPU time limit exceeded"}, ""),
        (4.0, {"success": False}, ""),
    ],
)
def test_processor_time_of_what_a_command_started_counts_too(
    cpu_s: float, said: dict[str, Any], seen_by: str
) -> None:
    found = hit(usage=Usage(cpu_s=cpu_s), **said)
    assert (found.seen_by if found else "") == seen_by
    assert found is None or (found.limit, found.used, found.allowed) == ("cpu_time", cpu_s, 5)


def test_the_time_of_jobs_beside_a_command_is_not_its_own() -> None:
    here, used, said = Reading(), Usage(cpu_s=9.0), {"success": True}
    assert hit_of(said, LIMITS, before=here, after=here, usage=used) is not None
    beside = hit_of(said, LIMITS, before=here, after=here, usage=used, is_alone=False)
    assert beside is None


def test_memory_that_was_refused_is_told_without_what_was_not_given() -> None:
    words: dict[str, Any] = {"success": False, "stderr": "MemoryError"}
    found = hit(usage=Usage(memory_bytes=16, claimed=("memory_bytes",)), **words)
    assert found == Hit(limit="memory", used=None, allowed=64, seen_by="output")
    said = told(words, found)
    assert ("used" in said, said["allowed"]) == (False, 64)
    assert "the limit `memory` was reached: 64 bytes; use less" in said["message"]
    counted = hit(usage=Usage(memory_bytes=60), **words)
    assert counted is not None
    assert counted.used == 60


def test_a_machines_own_kernel_says_when_it_has_killed() -> None:
    found = hit(success=False, exit_code=-9, killed_for_memory=1)
    assert found == Hit(limit="memory", used=None, allowed=64, seen_by="guest")
    assert hit(success=False, exit_code=-9, killed_for_memory="many") is None
    unbounded = Limits(memory_bytes=None)
    assert hit(limits=unbounded, success=False, killed_for_memory=1) is None


def test_of_memory_it_is_said_how_much_files_take() -> None:
    killed = Reading(ended_for_memory=2, in_files_bytes=48)
    found = hit(COUNTED, killed, usage=Usage(memory_bytes=60), success=False)
    assert found is not None
    assert "lie in memory and count too (48 bytes now): remove those" in sentence(found)
    found = hit(success=False, killed_for_memory=1, in_files_bytes=0)
    assert found is not None
    assert "smaller pieces, or ask for more memory" in sentence(found)
    for claim in ("many", -5, None):
        found = hit(success=False, killed_for_memory=1, in_files_bytes=claim)
        assert found is not None
        assert "lie in memory and count too: remove those" in sentence(found)


def test_what_is_counted_is_said_where_it_is_something_else() -> None:
    found = Hit(limit="processes", used=256, allowed=256, seen_by="cgroup", counted="tasks")
    assert "was reached: 256 of 256 tasks; start fewer" in told({}, found)["message"]


def test_a_full_disk_of_the_machine_is_no_limit_of_ours() -> None:
    words = "No space left on device"
    assert hit(after=Reading(has_room=False), success=False, stderr=words) is None


def test_what_is_not_bounded_cannot_be_hit() -> None:
    unbounded = Limits(cpu_seconds=None, memory_bytes=None)
    assert hit(limits=unbounded, exit_code=-24, success=False) is None
    assert hit(limits=unbounded, stderr="MemoryError", success=False) is None


def test_the_time_is_that_of_the_call_or_of_the_limit_whichever_is_less() -> None:
    late: dict[str, Any] = {"error": "TIMEOUT", "elapsed_s": 3.01, "success": False}
    assert hit(**late, timeout_s=3.0) == Hit(
        limit="wall", used=3.01, allowed=3.0, seen_by="time-out"
    )
    found = hit(**late, timeout_s=30.0)
    assert found is not None
    assert found.allowed == 9.0


def test_the_own_time_of_a_server_is_no_limit_of_the_environment() -> None:
    late: dict[str, Any] = {"error": "TIMEOUT", "success": False}  # by a server: no `elapsed_s`
    assert hit(**late, timeout_s=3.0) is None
    found = hit(**late, timeout_s=9.0)
    assert found is not None
    assert sentence(found).startswith("the limit `wall` was reached: 9 s; do less in one call")


def test_output_is_measured_by_its_longer_stream() -> None:
    found = hit(success=True, stdout_bytes=20, stderr_bytes=51)
    assert found == Hit(limit="output", used=51, allowed=50, seen_by="cap")
    assert hit(success=True, stdout_bytes=50, stderr_bytes="many") is None


@pytest.mark.parametrize(
    ("now", "limit", "used"),
    [
        (Reading(disk_bytes=81), "disk", 81),
        (Reading(cpu_s=7.2), "cpu_time", 6.2),
        (Reading(memory_now=65), "memory", 65),
        (Reading(processes_now=33), "processes", 33),
    ],
)
def test_a_watch_sees_what_nobody_else_stops(now: Reading, limit: str, used: float) -> None:
    began = Reading(cpu_s=1.0)
    found = watched_hit(LIMITS, began, now)
    assert found is not None
    assert (found.limit, found.used, found.seen_by) == (limit, used, "watch")
    assert watched_hit(LIMITS, began, Reading(disk_bytes=80, cpu_s=6.0, memory_now=64)) is None
    assert watched_hit(Limits(disk_bytes=None), began, Reading(disk_bytes=10**12)) is None


def test_what_was_too_much_before_it_began_stops_no_command_that_adds_nothing() -> None:
    began = Reading(disk_bytes=90)
    assert watched_hit(LIMITS, began, Reading(disk_bytes=90)) is None
    assert watched_hit(LIMITS, began, Reading(disk_bytes=85)) is None
    found = watched_hit(LIMITS, began, Reading(disk_bytes=91))
    assert found is not None
    assert (found.limit, found.used) == ("disk", 91)


def test_a_failed_call_failed_by_its_limit_and_a_good_one_stays_good() -> None:
    found = Hit(limit="memory", used=64 * 1024**2, allowed=64 * 1024**2, seen_by="cgroup")
    failed = told({"success": False, "error": "COMMAND_FAILED", "message": "exit code 1"}, found)
    assert failed["error"] == "LIMIT"
    assert failed["message"].startswith("exit code 1; the limit `memory` was reached: 64 MiB of 64")
    assert (failed["limit"], failed["used"], failed["limit_seen_by"]) == (
        "memory", 64 * 1024**2, "cgroup"
    )  # fmt: skip
    good = told({"success": True, "message": "exit code 0"}, found)
    assert ("error" in good, good["limit"]) == (False, "memory")
    late = told({"success": False, "error": "TIMEOUT", "message": "timed out"}, found)
    assert late["error"] == "TIMEOUT"
    assert told({"success": True}, None) == {"success": True}


def test_a_limit_is_read_from_a_result_only_where_somebody_has_seen_it() -> None:
    hit = Hit(limit="network.max_call_bytes", used=None, allowed=1.0, seen_by="gateway")
    assert limit_in(told({"success": True}, hit)) == "network.max_call_bytes"
    assert limit_in({"limit": "memory"}) is None  # a field of the operation's own
    assert [limit_in({"limit": x, "limit_seen_by": "cap"}) for x in (7, "x")] == [None, None]


def test_a_limit_of_the_gateways_is_told_before_what_is_guessed() -> None:
    found = Hit(limit="network.max_call_bytes", used=2048, allowed=1024, seen_by="gateway")
    said = told({"success": False, "message": ""}, found)["message"]
    assert said.startswith(
        "it was stopped; the limit `network.max_call_bytes` was reached: 2 KiB of 1 KiB; nothing"
    )
    guess = {"success": False, "stderr": "MemoryError"}
    before = Reading()
    assert hit_of(guess, LIMITS, before=before, after=before, usage=Usage(), gateway=found) == found
    killed = Reading(ended_for_memory=1)
    counted = hit_of(guess, LIMITS, before=before, after=killed, usage=Usage(), gateway=found)
    assert counted is not None
    assert counted.limit == "memory"


def test_a_limit_without_advice_is_told_all_the_same() -> None:
    found = Hit(limit="cpus", used=2, allowed=1, seen_by="cgroup")
    said = told({"success": False, "message": ""}, found)["message"]
    assert said == "it was stopped; the limit `cpus` was reached: 2 of 1"
