"""A disk that is full, or that fails to sync: the plan stops with a name for it, and goes on after.

The failing sync is a library of our own, loaded before the C library into the engine alone.
`PATCHYARD_TROUBLES` sets how many plans meet each, `PATCHYARD_SEED` the seed.
"""

import itertools
import json
import random
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.disks import Machine, machine
from chaos.killing import SEED, amount, rest_of
from chaos.matrix import case, lost

TROUBLES = amount("PATCHYARD_TROUBLES", sample=1, soak=20)
FILES = [("README", "a repository\n")]

pytestmark = [
    pytest.mark.service("bubblewrap"),
    pytest.mark.service("root"),
    pytest.mark.service("loop-devices"),
    pytest.mark.slow,
    pytest.mark.timeout(900 + 30 * TROUBLES),
]

FAILING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int fails(void) {
    const char *trouble = getenv("SYNC_TROUBLE");
    return trouble && access(trouble, F_OK) == 0;
}

int fsync(int fd) {
    if (fails()) { errno = EIO; return -1; }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}

int fdatasync(int fd) {
    if (fails()) { errno = EIO; return -1; }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
"""


def run_of(folder: Path, seed: int) -> tuple[str, ...]:
    script = folder / f"{seed}.json"
    script.write_text(case(seed).script)
    return ("run", "steps", "--model", f"scripted:{script}")


def undisturbed(folder: Path, *words: str) -> str:
    with machine(folder / "whole", FILES) as here:
        return str(here.answer(*words)["data"]["changeset"]["tree"])


def begun(
    here: Machine, rng: random.Random, *words: str, **variables: str
) -> tuple["subprocess.Popen[bytes]", list[dict[str, Any]]]:
    """Start a command; return it some time after it told of some events, and what it told."""
    process = here.agents(*words, "--stream", "--format", "json", **variables)
    assert process.stdout is not None
    told = [json.loads(line) for line in itertools.islice(process.stdout, rng.randint(1, 100))]
    threading.Event().wait(rng.choice((0.0, rng.uniform(0, 0.2))))
    return process, told


def ended(process: "subprocess.Popen[bytes]") -> list[dict[str, Any]]:
    told, err = rest_of(process)
    assert b"Traceback" not in err, err.decode()
    error = (told[-1] if told else {}).get("error") or {}
    assert process.returncode in {0, 4}, (error, err.decode())
    return told


def gone_on(here: Machine, told: list[dict[str, Any]], wanted: str, *words: str) -> str:
    """Let the plan end now that the trouble is over; return what shows of it, if anything may."""
    known = here.answer("plan", "list")["data"]["plans"]
    end = here.answer(*(("plan", "resume", "@last") if known else words))
    assert end["exit_code"] == 0, end["error"]
    events = here.answer("plan", "events", "@last")["data"]["events"]
    assert lost(told, events) == []
    # The engine has room kept. The commands have none: what they lost, their actor was told.
    if end["data"]["changeset"]["tree"] == wanted:
        return ""
    refused = [event for event in events if "No space left" in json.dumps(event)]
    assert refused
    return json.dumps(refused[0])[:500]


@pytest.mark.parametrize("number", range(TROUBLES))
def test_a_full_disk_stops_a_plan_and_room_lets_it_go_on(
    tmp_path: Path, number: int, record_property: Callable[[str, object], None]
) -> None:
    seed = SEED + number
    rng = random.Random(seed)
    words = run_of(tmp_path, seed)
    wanted = undisturbed(tmp_path, *words)
    with machine(tmp_path / "full", FILES) as here:
        process, told = begun(here, rng, *words)
        with here.full():
            told += ended(process)
        if process.returncode == 0:
            refused = [event for event in told if event.get("success") is False]
            assert refused or told[-1]["data"]["changeset"]["tree"] == wanted
        else:
            record_property("shows", gone_on(here, told, wanted, *words))
        record_property("exit", process.returncode)


@pytest.mark.service("c-compiler")
@pytest.mark.parametrize("number", range(TROUBLES))
def test_a_disk_that_does_not_sync_stops_a_plan_and_loses_nothing(
    tmp_path: Path, number: int
) -> None:
    source, library = tmp_path / "failing.c", tmp_path / "failing.so"
    source.write_text(FAILING)
    compile_it = ["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(compile_it, check=True)
    trouble = tmp_path / "trouble"
    variables = {"LD_PRELOAD": str(library), "SYNC_TROUBLE": str(trouble)}
    seed = SEED + number
    rng = random.Random(seed)
    words = run_of(tmp_path, seed)
    wanted = undisturbed(tmp_path, *words)
    with machine(tmp_path / "failing", FILES) as here:
        process, told = begun(here, rng, *words, **variables)
        trouble.touch()
        told += ended(process)
        trouble.unlink()
        gone_on(here, told, wanted, *words)
