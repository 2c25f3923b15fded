"""The power is cut at any instant, and what was not flushed is there in parts, in any order.

The engine works on a disk that logs its writes. Of one log many disks are made, each as a cut at
another instant may leave it; the engine goes on from there. `PATCHYARD_INSTANTS` sets how many,
`PATCHYARD_SEED` the seed.
"""

import json
import random
import subprocess
from pathlib import Path

import pytest

from chaos.aftermaths import RESUME, Instant, aftermath
from chaos.killing import SEED, amount
from chaos.recordings import PATCH, Command, Recording, record
from chaos.write_logs import Disks
from timing import IS_SOAK

INSTANTS = amount("PATCHYARD_INSTANTS", sample=4, soak=200)
STEPS = 4
#: Without what ext4 does by itself for programs that do not flush; a soak takes the usual, too.
HARSH = "data=writeback,noauto_da_alloc"
MOUNTS = ("", HARSH) if IS_SOAK else (HARSH,)
UNFLUSHED = """
int fsync(int file) { return 0; }
int fdatasync(int file) { return 0; }
int syncfs(int file) { return 0; }
int sync_file_range(int file, long offset, long size, unsigned flags) { return 0; }
void sync(void) {}
"""
SHORT_KEEP = {"PATCHYARD_KEEP": "{workspaces: 0.001s}"}

pytestmark = [
    pytest.mark.service("bubblewrap"),
    pytest.mark.service("root"),
    pytest.mark.service("loop-devices"),
    pytest.mark.service("fuse"),
    pytest.mark.slow,
    pytest.mark.timeout(900 + 30 * INSTANTS),
]


def script() -> str:
    """Steps whose effects show when one is lost or doubled."""
    commands = [
        f"echo step-{step} >> effects.log; mkdir -p new/{step} && echo {step} > new/{step}/file;"
        " rm -f old/two.txt; echo more >> README"
        for step in range(STEPS)
    ]
    replies = [
        {"calls": [{"name": "execute_command", "arguments": {"command": command}}]}
        for command in commands
    ]
    return json.dumps({"note": "by hand", "execute": [*replies, {"finish": "all is done"}]})


RUN = Command(name="run", words=("run", "steps", "--model", "scripted:{yard}/script.json"))
UNAPPLY = Command(name="unapply", words=("plan", "unapply", "@last"))
GC = Command(name="gc", words=("gc",), variables=SHORT_KEEP)
ROLLBACK = Command(name="rollback", words=("plan", "rollback", "@last", "{checkpoint}", "--yes"))


def applied(to: str) -> Command:
    name = ("--name", "{yard}/" + PATCH) if to == "patch" else ()
    return Command(name=to, words=("plan", "apply", "@last", "--to", to, *name))


SEQUENCE: tuple[Command, ...] = (RUN, applied("merge"), UNAPPLY)
if IS_SOAK:
    undone = [each for to in ("branch", "patch", "merge") for each in (applied(to), UNAPPLY)]
    SEQUENCE = (RUN, ROLLBACK, RESUME, *undone, applied("worktree"), GC, UNAPPLY)


@pytest.fixture(scope="module", params=MOUNTS, ids=lambda options: options or "as usual")
def recording(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Recording:
    folder = tmp_path_factory.mktemp("recorded") / "disk"
    return record(folder, script(), SEQUENCE, options=request.param)


def disks_of(recording: Recording, folder: Path) -> Disks:
    """Disks made of a copy of the recording's."""
    subprocess.run(["cp", "--sparse=always", recording.image, folder / "image"], check=True)
    return Disks(folder / "image", recording.log)


def instants(recording: Recording, disks: Disks, rng: random.Random) -> list[Instant]:
    """As many in each command: right after its end was told, anywhere, or right before a flush."""
    found = []
    for number in range(INSTANTS // len(MOUNTS)):
        turn, index = divmod(number, len(recording.commands))
        command = recording.commands[index]
        begin, told = command.begin, command.answer.at
        anywhere = disks.positions(begin, told)
        before_flushes = disks.eves(begin, told) or anywhere
        at = ([told], anywhere, before_flushes)[(turn + index) % 3]
        found.append(Instant(number=index, at=rng.choice(at), is_told=at == [told]))
    return sorted(found, key=lambda each: each.at)


def told_last(recording: Recording) -> Instant:
    last = len(recording.commands) - 1
    return Instant(number=last, at=recording.commands[last].answer.at, is_told=True)


def test_what_was_acknowledged_survives_a_cut_that_took_unflushed_writes(
    recording: Recording, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    disks = disks_of(recording, tmp_path)
    found = []
    for number, instant in enumerate(instants(recording, disks, rng)):
        is_thorough = IS_SOAK and number % 5 == 0
        found += aftermath(recording, disks, instant, rng, is_thorough=is_thorough)
    assert found == [], f"seed {SEED}"


def test_a_disk_that_lies_of_its_flushes_is_found_out(recording: Recording, tmp_path: Path) -> None:
    last = recording.commands[-1]

    found = aftermath(
        recording,
        disks_of(recording, tmp_path),
        told_last(recording),
        random.Random(SEED),
        lying_from=last.begin,
    )

    assert found


@pytest.mark.skipif(not IS_SOAK, reason="a recording of its own: in a soak")
@pytest.mark.service("c-compiler")
def test_an_engine_that_flushes_nothing_is_found_out(tmp_path: Path) -> None:
    source, library = tmp_path / "unflushed.c", tmp_path / "unflushed.so"
    source.write_text(UNFLUSHED)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    variables = {"LD_PRELOAD": str(library)}

    made = record(tmp_path / "disk", script(), (RUN, applied("merge")), variables)

    disks = Disks(made.image, made.log)
    assert aftermath(made, disks, told_last(made), random.Random(SEED))
