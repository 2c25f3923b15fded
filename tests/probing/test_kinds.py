"""The whole battery against whole kinds: what holds, what is known not to, what cannot be shown."""

import json
import os
import subprocess

import pytest

from images import WITH_PYTHON, image
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.probing.attack import Report, Verdict
from patchyard.probing.battery import all_attacks
from patchyard.probing.known import IN_GVISOR, KNOWN, Only
from probing.halls import Hall, by_verdict
from services import ordinary_python
from timing import IS_SOAK

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.service("bubblewrap"),
    pytest.mark.slow,
    pytest.mark.timeout(900),  # a hundred attacks and their controls, in gVisor too
]

NOBODY = 65534
IS_ROOT = os.geteuid() == 0
OF_MACHINES = {
    *("kernel-module", "other-numbering", "hypervisor-socket", "tcp-loopback-ipv6", "sys-setting"),
    *("metadata-route", "other-networks-route", "user-namespace", "user-namespace-clone"),
    *("user-namespace-clone3", "keyring-written", "keyring-read", "io-uring", "bpf", "userfaultfd"),
    *("perf", "terminal-typed", "terminal-typed-wide", "process-traced", "memory-by-call"),
    *("memory-by-file", "descriptor-taken", "device-opened", "device-made", "setuid-program"),
}
"""What a kernel or a disk may refuse to everybody, root included."""
OF_ROOT = {
    *("file-by-handle", "kernel-setting", "network-joined", "setuid-left", "file-to-root"),
    *("kernel-log", "swap", "handed-device", "memory-folders"),
}
"""What only root can show."""


OF_GVISOR = frozenset({"fork-bomb", "memory", "unmarked-daemon"})
"""What goes beyond its bounds there, or ends the toolbox, takes the whole environment along."""
OF_THE_TOOLBOX = ("process-traced", "memory-by-call", "toolbox-variables", "toolbox-memory")
GVISORS = [
    pytest.param(name, marks=pytest.mark.service(name))
    for name in ("runsc-current", "runsc-systrap")
]


def require_walls(report: Report) -> None:
    succeeded = by_verdict(report, Verdict.SUCCEEDED)
    assert succeeded == {}
    assert by_verdict(report, Verdict.KNOWN) == {}
    require_controls(report)


def require_controls(report: Report, *, but: frozenset[str] = frozenset()) -> None:
    """Each control works, or says what the machine refused."""
    missing = by_verdict(report, Verdict.NOT_SHOWN)
    assert set(missing) - but <= (OF_MACHINES if IS_ROOT else OF_MACHINES | OF_ROOT), missing
    assert all(ruling.note for ruling in missing.values())
    assert report.count(Verdict.HELD) + report.count(Verdict.KNOWN) >= 60


async def test_nothing_gets_out_of_process(hall: Hall) -> None:
    require_walls(await hall.probe("process"))


@pytest.mark.service("docker")
async def test_nothing_gets_out_of_a_container(hall: Hall) -> None:
    require_walls(await hall.probe("container"))


@pytest.mark.service("runsc")
async def test_nothing_gets_out_of_gvisor_but_what_it_tells_of_the_toolbox(hall: Hall) -> None:
    report = await hall.probe("container", image=image(WITH_PYTHON), runtime="runsc")
    assert by_verdict(report, Verdict.SUCCEEDED) == {}
    assert set(by_verdict(report, Verdict.KNOWN)) == set(IN_GVISOR)
    require_controls(report, but=OF_GVISOR)


@pytest.mark.parametrize("runtime", GVISORS)
async def test_nothing_gets_out_of_a_current_gvisor(hall: Hall, runtime: str) -> None:
    """The whole battery in a soak; else what an older one lets through, and what is like it."""
    names = () if IS_SOAK else OF_THE_TOOLBOX
    report = await hall.probe("container", *names, image=image(WITH_PYTHON), runtime=runtime)
    found = {ruling.attack: str(ruling.verdict) for ruling in report.rulings}
    if not IS_SOAK:
        assert found == dict.fromkeys(OF_THE_TOOLBOX, str(Verdict.HELD))
        return
    assert {"SUCCEEDED", "known"}.isdisjoint(found.values()), found
    require_controls(report, but=OF_GVISOR)


async def test_host_stops_all_but_what_is_listed(hall: Hall) -> None:
    report = await hall.probe("host")
    assert by_verdict(report, Verdict.SUCCEEDED) == {}
    # It takes its own toolbox with it; where a control group holds it, nothing else is left to see.
    require_controls(report, but=frozenset({"unmarked-daemon"}))
    certain = Only.ALWAYS if IS_ROOT else Only.ORDINARY
    listed = KNOWN[ExecutionEnvironment.HOST]
    expected = {name for name, known in listed.items() if known.only in {Only.ALWAYS, certain}}
    absent = set(by_verdict(report, Verdict.NOT_SHOWN))
    got = set(by_verdict(report, Verdict.KNOWN))
    may = {name for name, known in listed.items() if known.only is Only.OPEN}
    assert got - may == expected - absent


def as_nobody(hall: Hall, *words: str) -> "subprocess.CompletedProcess[bytes]":
    home = hall.folder / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    return subprocess.run(
        [*ordinary_python(), *words],
        cwd="/",
        env={**os.environ, "HOME": str(home), "PATCHYARD_HOME": f"{home}/state"},
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        check=False,
    )


@pytest.mark.service("ordinary-user")
@pytest.mark.service("root")
def test_nothing_gets_out_of_process_for_an_ordinary_user(hall: Hall) -> None:
    done = as_nobody(hall, "-m", "patchyard", "env", "probe", "process", "--format", "json")
    body = json.loads(done.stdout)
    assert (done.returncode, body["error"]) == (0, None), done.stderr
    assert body["data"]["counts"]["SUCCEEDED"] == body["data"]["counts"]["known"] == 0
    missing = {each["attack"] for each in body["data"]["rulings"] if each["verdict"] == "not shown"}
    assert missing <= OF_MACHINES | OF_ROOT
    assert len(body["data"]["rulings"]) == len(all_attacks(str))


ONLY_ORDINARY = """
import asyncio, os
from patchyard import assembly
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.probing import probe
from patchyard.probing.battery import all_attacks
from patchyard.probing.known import NO_WALLS, Only

names = {name for name, known in NO_WALLS.items() if known.only is Only.ORDINARY}
probe.all_attacks = lambda show: [each for each in all_attacks(show) if each.name in names]

async def main():
    kind = ExecutionEnvironment.HOST
    async with assembly.open_prober(os.environ, str(kind), show=str) as prober:
        report = await prober.run()
    for ruling in report.rulings:
        print(ruling.verdict, ruling.attack)

asyncio.run(main())
"""


@pytest.mark.service("ordinary-user")
@pytest.mark.service("root")
def test_on_host_an_ordinary_users_agent_reaches_the_engine_as_listed(hall: Hall) -> None:
    done = as_nobody(hall, "-c", ONLY_ORDINARY)
    assert done.returncode == 0, done.stderr.decode()
    listed = KNOWN[ExecutionEnvironment.HOST].items()
    expected = [f"known {name}" for name, known in listed if known.only is Only.ORDINARY]
    assert sorted(done.stdout.decode().splitlines()) == sorted(expected)
