"""What every kind of environment must do, shown on the real ones."""

import asyncio
import json
import os
import signal
import stat
from dataclasses import replace

import pytest

from environments.yards import KINDS, Adapter, Running, Start, Yard, living
from patchyard.clients.process import ProcessRef, kill, wait_ended
from patchyard.domain.codec import to_json
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment, Mount
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable, UsageError
from patchyard.toolbox.serving import pin_of
from toolboxes import comes_true

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture(params=KINDS)
def adapter(request: pytest.FixtureRequest, yard: Yard) -> Adapter:
    return yard.adapter(request.param)


def main_process(running: Running) -> ProcessRef:
    details = running.handle.details
    found = details.get("init") or details["root"]
    return ProcessRef(pid=found["pid"], started=found["started"])


async def test_it_runs_commands_in_the_workspace(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    assert await running.run("pwd") == str(yard.workspace)
    shown = running.handle.workspace_path
    assert shown == (str(yard.workspace) if yard.carries else str(yard.inside(running.handle)))
    await running.run("echo hello > new.txt")
    assert (yard.workspace / "new.txt").read_text() == "hello\n"


SERVER = """
while IFS= read -r line; do case $line in
*initialize\\"*) echo '{"id":1,"result":{}}' ;;
*tools/list*) echo '{"id":2,"result":{"tools":[{"name":"note"}]}}' ;;
*tools/call*) echo noted >> notes.txt; echo '{"id":3,"result":{"content":[]}}' ;;
esac; done
"""


async def test_a_server_of_tools_runs_in_the_workspace(start: Start, yard: Yard) -> None:
    (yard.workspace / "server.sh").write_text(SERVER)
    running = await start(yard.spec())
    server = {"server": "s", "command": ["sh", "server.sh"]}
    listed = await running.toolbox.call("01LIST", "mcp_list", server)
    assert listed["tools"] == ['{"name":"note"}'], listed
    call = {"tool": "note", "arguments": {}, "pin": pin_of('{"name":"note"}')}
    called = await running.toolbox.call("01NOTE", "mcp_call", {**server, **call})
    assert called["answer"] == '{"content":[]}', called
    again = await running.toolbox.attach("01NOTE")
    assert again is not None
    assert again["answer"] == called["answer"]
    assert (yard.workspace / "notes.txt").read_text() == "noted\n"


async def test_check_starts_one_for_certain_and_leaves_nothing(adapter: Adapter) -> None:
    readiness = await adapter.check()
    assert (readiness.is_ready, readiness.cause) == (True, "")
    assert readiness.kind is adapter.kind
    assert {"path", "access", "source"} == set(readiness.facts["visible"][0])


async def test_the_agents_files_never_belong_to_root(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    await running.run("echo x > file; mkdir folder; umask")
    owners = {path.stat().st_uid for path in yard.workspace.iterdir()}
    assert len(owners) == 1
    assert 0 not in owners


async def test_a_handle_that_went_through_the_journal_attaches(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    stored = json.loads(json.dumps(to_json(running.handle)))
    handle = EnvironmentHandle(
        environment_id=stored["environment_id"],
        kind=ExecutionEnvironment(stored["kind"]),
        workspace_path=stored["workspace_path"],
        details=stored["details"],
    )
    other = await yard.adapter(str(handle.kind)).attach(handle)
    result = await other.call("01CALL", "execute_command", {"command": "echo again"})
    assert result["success"] is True
    await other.close()


async def test_a_call_goes_on_while_nobody_is_connected(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    running = await start(yard.spec())
    gate = yard.inside(running.handle) / "gate"
    waits = "until [ -s gate ]; do sleep 0.01; done; echo got $(cat gate)"
    task = asyncio.create_task(running.result(waits, call_id="01GATE"))
    await asyncio.sleep(0)  # the first in any line
    await running.run("true")  # the first call has been taken before this one
    task.cancel()
    await running.toolbox.close()
    again = await adapter.attach(running.handle)
    await asyncio.to_thread(gate.write_text, "word\n")
    result = await again.attach("01GATE")
    await again.close()
    assert result is not None
    assert result["stdout"] == "got word\n"


async def test_only_the_engines_user_can_speak_to_the_toolbox(start: Start, yard: Yard) -> None:
    handle = (await start(yard.spec())).handle
    folder = yard.station.runtime / handle.environment_id
    places = (yard.station.runtime, folder, folder / handle.details["socket"])
    facts = [place.stat() for place in places]
    assert [stat.S_IMODE(found.st_mode) for found in facts] == [0o700, 0o700, 0o600]
    assert {found.st_uid for found in facts} == {os.geteuid()}


async def test_signals_from_inside_to_what_is_first_there_end_nothing(
    start: Start, yard: Yard
) -> None:
    running = await start(yard.spec())
    names = "TERM INT HUP QUIT USR1 USR2 ALRM PIPE XFSZ XCPU CHLD"
    sent = f"for name in {names}; do kill -$name 1; done"
    await running.run(f"[ $PPID != 1 ] || {{ {sent}; }}")  # the machine's own is none of ours
    for name in ("TERM", "INT", "HUP"):  # bash ignores a QUIT
        result = await running.result(f"kill -{name} $$; sleep 9")
        assert result["signal"] == f"SIG{name}", result
    assert await running.run("echo alive") == "alive"


async def test_an_unknown_call_is_not_known(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    assert await running.toolbox.attach("01NEVER") is None


async def test_ending_takes_along_what_forked_into_a_session_of_its_own(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    running = await start(yard.spec())
    mark = f"{os.getpid()}.{yard.folder.name}"
    await running.run(f"setsid -f sh -c 'exec -a {mark} sleep 300 2>/dev/null || sleep 300' ")
    await running.run(f"(setsid sleep 300 & ) ; echo {mark}")
    before = living(yard)
    await adapter.end(running.handle)
    assert before
    assert not [process for process in before if process.is_alive]


async def test_ending_twice_and_ending_a_lost_one_is_fine(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    running = await start(yard.spec())
    assert kill(main_process(running), signal.SIGKILL)
    await adapter.end(running.handle)
    await adapter.end(running.handle)


async def test_ending_a_stopped_tree_works(start: Start, adapter: Adapter, yard: Yard) -> None:
    running = await start(yard.spec())
    await running.run("(setsid sleep 300 &)")
    tree = [*living(yard), main_process(running)]
    assert len(tree) > 1
    for process in tree:
        kill(process, signal.SIGSTOP)
    await adapter.end(running.handle)
    assert not [process for process in tree if process.is_alive]


async def test_a_lost_one_cannot_be_attached(start: Start, adapter: Adapter, yard: Yard) -> None:
    running = await start(yard.spec())
    await adapter.end(running.handle)
    with pytest.raises(EnvironmentBroken):
        await adapter.attach(running.handle)


async def test_a_handle_of_another_boot_names_no_process(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    running = await start(yard.spec())
    details = {**running.handle.details, "boot": "another"}
    with pytest.raises(EnvironmentBroken):
        await adapter.attach(replace(running.handle, details=details))


async def test_a_handle_with_a_foreign_name_touches_nothing(adapter: Adapter) -> None:
    handle = EnvironmentHandle(
        environment_id="../../etc", kind=adapter.kind, workspace_path="/", details={}
    )
    with pytest.raises(UsageError):
        await adapter.end(handle)


async def test_it_ends_itself_when_no_engine_comes(start: Start, yard: Yard) -> None:
    running = await start(yard.spec(grace_s=3.0))  # it is attached to in that time
    await running.run("(setsid sleep 300 &)")
    tree = [*living(yard), main_process(running)]
    await running.toolbox.close()
    for process in tree:
        assert await asyncio.to_thread(wait_ended, process, timeout_s=60)


@pytest.mark.parametrize("turns", [1, 2, 4])
async def test_a_cancelled_start_leaves_nothing(adapter: Adapter, yard: Yard, turns: int) -> None:
    task = asyncio.create_task(adapter.start(yard.spec()))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(yard.station.runtime.glob("0*")) == []
    await comes_true(lambda: not living(yard))  # killed already: the kernel may take a moment


async def test_a_start_that_cannot_work_names_the_place_and_leaves_nothing(
    adapter: Adapter, yard: Yard
) -> None:
    missing = Mount(source="/no/such/place", target="/srv/place")
    with pytest.raises(EnvironmentUnavailable) as refused:
        await adapter.start(yard.spec(missing))
    assert "/no/such/place" in refused.value.message
    assert refused.value.hint


async def test_commands_get_made_up_variables_and_none_of_the_engines(
    start: Start, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    yard.variables["CI"] = "yes"
    running = await start(yard.spec())
    seen = await running.run("env; cat /proc/self/environ /proc/[0-9]*/environ 2>/dev/null")
    assert "CI=yes" in seen
    assert "sk-very-secret" not in seen


async def test_no_descriptor_of_the_engine_enters(start: Start, yard: Yard) -> None:
    secret = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        running = await start(yard.spec())
        seen = await running.run("cd /proc/$$/fd && echo *")
    finally:
        os.close(secret)
    assert set(seen.split()) <= {"0", "1", "2", "255", "3"}


async def test_two_at_once_are_two(start: Start, yard: Yard) -> None:
    one, two = await asyncio.gather(start(yard.spec()), start(yard.spec()))
    assert one.handle.environment_id != two.handle.environment_id
    await one.run("true", call_id="01SAME")
    assert await two.toolbox.attach("01SAME") is None


async def test_limits_are_those_of_the_spec(start: Start, yard: Yard) -> None:
    spec = yard.spec()
    limits = replace(spec.limits, open_files=123, file_bytes=1024 * 1024)
    running = await start(replace(spec, limits=limits))
    assert (await running.run("ulimit -n; ulimit -c")).split() == ["123", "0"]
    offered = await running.run("cat /proc/self/oom_score_adj")
    assert offered.strip() == "500"  # of who may be ended for want of memory, before the toolbox
    await running.run("head -c 3000000 /dev/zero > big")
    assert (yard.workspace / "big").stat().st_size == 1024 * 1024
