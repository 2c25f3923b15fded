"""Devcontainers that do not end, or say and write without end: the plan ends in its time."""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from mainjob.devcontainers import linked
from mainjob.driver import Desk, finish, shell
from mainjob.hostile_devcontainers import IMAGE, Case
from mainjob.hostile_repositories import committed, said
from mainjob.watched_engines import WatchedEngine
from mainjob.watched_plans import told, watched
from timing import IS_SOAK

pytestmark = [
    pytest.mark.service("devcontainers-cli"),
    pytest.mark.service("docker"),
    pytest.mark.service("network-namespaces"),
    pytest.mark.timeout(900),
]

LIMIT_S = 15.0  # enough to start, also where the machine is busy
TIME_IS_UP = 5  # the exit code
FOREVER = {
    "waits": "sleep 10000",
    "works": "while :; do :; done",
    "talks": "yes",
    "talks in one line": "while :; do printf xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done",
    "ignores signals": "trap '' TERM INT HUP; while :; do sleep 1; done",
    "leaves processes behind": "for n in 1 2 3; do (trap '' TERM; sleep 10000) & done; wait",
}
KEYS = ("onCreateCommand", "postCreateCommand", "postStartCommand", "postAttachCommand")


def _at(tries: str, key: str, body: Mapping[str, Any], files: Mapping[str, str]) -> Case:
    return Case(tries=tries, key=key, code=TIME_IS_UP, named=(), body=body, files=files)


def endless() -> Iterator[Case]:
    """Each way not to end, in each place where a command may stand."""
    for tries, command in FOREVER.items():
        for key in KEYS:
            yield _at(tries, key, {key: command}, {})
        build = {"build": {"dockerfile": "Dockerfile"}}
        dockerfile = {".devcontainer/Dockerfile": f"FROM {IMAGE}\nRUN {command}\n"}
        yield _at(tries, "build", build, dockerfile)
        feature = {
            ".devcontainer/f/devcontainer-feature.json": json.dumps({"id": "f"}),
            ".devcontainer/f/install.sh": f"{command}\n",
        }
        yield _at(tries, "features", {"features": {"./f": {}}}, feature)


CASES = tuple(endless())
IN_CI = ("talks", "build")
TRIED = [case for case in CASES if IS_SOAK or (case.tries, case.key) == IN_CI]


@pytest.mark.parametrize("case", TRIED, ids=lambda case: f"{case.key} {case.tries}")
def test_what_does_not_end_ends_with_its_plan_and_leaves_nothing(
    case: Case, desk: Desk, engine_in_use: WatchedEngine
) -> None:
    committed(desk, case)
    linked(desk)
    script = desk.script(shell("echo x > x.txt"), finish("done"))
    words = ["--model", f"scripted:{script}", "--in", "co-devcontainer"]
    begun = time.time()
    done = watched(
        desk, engine_in_use.network, "run", "do it", *words, "--timeout", f"{LIMIT_S:g}s"
    )
    told(f"{case.tries} in {case.key}", [done])
    assert not done.excess(within_s=LIMIT_S)
    assert done.answer.code == case.code, said(done.answer)
    assert engine_in_use.worked(begun), "it was let"
