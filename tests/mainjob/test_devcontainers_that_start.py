"""Hostile devcontainers on an engine that has their image: one that were believed would run."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mainjob.devcontainers import linked
from mainjob.driver import Desk, finish, shell
from mainjob.hostile_devcontainers import CASES, IMAGE, Case
from mainjob.hostile_repositories import committed, said
from mainjob.watched_engines import WatchedEngine
from mainjob.watched_plans import LIMIT_S, Watched, told, watched
from timing import IS_SOAK

pytestmark = [
    pytest.mark.service("devcontainers-cli"),
    pytest.mark.service("docker"),
    pytest.mark.service("network-namespaces"),
    pytest.mark.timeout(3000),
]

STARTED = 0  # the exit code
#: What trust lets be fetched.
FETCHING = {
    *("features", "overrideFeatureInstallOrder", "feature.dependsOn", "feature.installsAfter"),
}
NOT_FETCHED = (4, "cannot install the features")
NOT_BUILT = (4, "does not build")
#: How what trust grants ends where it does not start; all else starts, within its walls.
ENDS = {
    "remoteEnv": (2, "is not known here"),
    "postAttachCommand": (4, "exit code 127"),  # the image has no curl
    "image": (4, "is no name of an image"),  # what looks like a credential is filled in by nothing
    "build.args": (4, "there is no image 'x' here"),
    **dict.fromkeys(("features", "feature.dependsOn", "feature.installsAfter"), NOT_FETCHED),
    **dict.fromkeys(("feature.containerEnv", "feature.options"), NOT_BUILT),
}
SECRET = "sk-very-secret"
MARK = "touch /tmp/started"
#: Leaves a file behind where the file's own command ran, and where all walls stand.
HELD = f"""
set -e
test -f /tmp/started
grep -q '^CapBnd:.0000000000000000$' /proc/self/status
grep -q '^NoNewPrivs:.1$' /proc/self/status
test "$(grep -c : /proc/net/dev)" = 1
for place in /host /keys /data /var/run/docker.sock; do test ! -e $place; done
if env | grep -q {SECRET}; then exit 1; fi
echo held > held.txt
"""
#: In CI every so many of the files is tried here, too.
BEFORE_TRUST, AFTER_TRUST = 12, 40


@pytest.fixture
def engine(engine_in_use: WatchedEngine, monkeypatch: pytest.MonkeyPatch) -> WatchedEngine:
    monkeypatch.setenv("TOKEN", SECRET)
    return engine_in_use


def able(case: Case) -> Case:
    """A case that would start, or build, if it were let; it leaves a mark where it may say so."""
    files = {
        path: text.replace("FROM scratch", f"FROM {IMAGE}") for path, text in case.files.items()
    }
    body = case.body if isinstance(case.body, str) else _marking(case.body)
    code = STARTED if case.named == (IMAGE,) else case.code
    return replace(case, files=files, body=body, code=code)


def _marking(body: Mapping[str, Any]) -> Mapping[str, Any]:
    own = body.get("postStartCommand", MARK)
    is_plain = isinstance(own, str | list) and own != MARK
    return {**body, "postStartCommand": {"own": own, "mark": MARK} if is_plain else own}


def planned(desk: Desk, engine: WatchedEngine) -> Watched:
    """Run a plan in the devcontainer that looks at its walls."""
    script = desk.script(shell(HELD), finish("done"))
    words = ["--model", f"scripted:{script}", "--in", "co-devcontainer"]
    return watched(desk, engine.network, "run", "do it", *words, "--timeout", f"{LIMIT_S:g}s")


def is_held(done: Watched) -> bool:
    """Whether it started, and looked at its walls."""
    return done.answer.code == STARTED and done.answer.changed == {"held.txt": "added"}


def wrong(case: Case, done: Watched, worked: list[str], *, is_started: bool) -> str:
    """Say what is wrong with how a case ended; empty: nothing."""
    ended, excess = done.answer.code, done.excess()
    is_refused = ended != STARTED and not worked
    is_right = is_held(done) and bool(worked) if is_started else is_refused
    if is_right and not excess:
        return ""
    return f"{case.tries} ({case.key}): {ended}, {worked}, {excess}: {said(done.answer)[:300]}"


def test_before_trust_nothing_starts_but_what_asks_for_nothing_and_that_within_its_walls(
    desk: Desk, engine: WatchedEngine
) -> None:
    committed(desk, CASES[0])
    linked(desk)
    found, plans, started = [], [], 0
    for case in map(able, CASES if IS_SOAK else CASES[::BEFORE_TRUST]):
        committed(desk, case)
        begun = time.time()
        done = planned(desk, engine)
        worked = engine.worked(begun)
        plans.append(done)
        started += bool(worked)
        if done.answer.code != case.code:
            found.append(f"{case.tries} ({case.key}): {said(done.answer)[:300]}")
        found.append(wrong(case, done, worked, is_started=case.code == STARTED))
    told(f"before trust, {started} of them started", plans)
    assert not any(found), "\n".join(filter(None, found))
    assert 0 < started < len(plans), "what starts is seen"
    assert desk.ran == []


def test_after_trust_what_was_refused_starts_within_its_walls(
    desk: Desk, engine: WatchedEngine
) -> None:
    committed(desk, CASES[0])
    linked(desk)
    found, plans = [], []
    cases = [case for case in CASES if case.after != "granted"]
    for case in map(able, cases if IS_SOAK else cases[::AFTER_TRUST]):
        committed(desk, case)
        assert desk.agents("trust").code == 0
        begun = time.time()
        done = planned(desk, engine)
        plans.append(done)
        is_started = case.after == "over" or case.code == STARTED
        found.append(wrong(case, done, engine.worked(begun), is_started=is_started))
    told("after trust", plans)
    assert not any(found), "\n".join(filter(None, found))
    assert desk.ran == []


def test_after_trust_what_is_granted_takes_no_wall_away(desk: Desk, engine: WatchedEngine) -> None:
    committed(desk, CASES[0])
    linked(desk)
    found, plans = [], []
    cases = [case for case in CASES if case.after == "granted"]
    for case in map(able, cases if IS_SOAK else cases[:1]):
        committed(desk, case)
        assert desk.agents("trust").code == 0
        done = planned(desk, engine)
        plans.append(done)
        is_fetched = case.key in FETCHING
        reached = [] if is_fetched else done.attempts
        code, words = ENDS.get(case.key, (STARTED, ""))
        is_right = done.answer.code == code and words in said(done.answer)
        if code == STARTED:
            is_right = is_held(done)
        if reached or not is_right or replace(done, attempts=[]).excess():
            ended = f"{done.answer.code}, {done.excess()}: {said(done.answer)[:300]}"
            found.append(f"{case.tries} ({case.key}): {ended}")
    told("after trust, with what it grants", plans)
    assert not found, "\n".join(found)
    assert any(map(is_held, plans))
    assert desk.ran == []


def test_what_trust_lets_reach_out_is_seen_to_do_so_and_not_before(
    desk: Desk, engine: WatchedEngine
) -> None:
    case = next(case for case in CASES if "ghcr.io/evil/x:1" in case.tries)
    committed(desk, able(case))
    linked(desk)
    assert planned(desk, engine).attempts == []
    assert desk.agents("trust").code == 0
    assert [each for each in planned(desk, engine).attempts if each.endswith(" port 53")]


def test_what_the_engine_and_its_containers_reach_for_is_seen(engine: WatchedEngine) -> None:
    engine.network.attempts()
    engine.said("pull", "x.example/evil", is_checked=False)
    assert [each for each in engine.network.attempts() if each.endswith(" port 53")]
    reach = "echo > /dev/tcp/192.0.2.7/80"
    words = ("run", "--rm", "--network", "host", IMAGE, "bash", "-c", reach)
    engine.said(*words, is_checked=False)
    assert engine.network.attempts() == ["TCP to 192.0.2.7 port 80"]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--privileged",),
        ("--cap-drop=ALL", "--security-opt=no-new-privileges", "--volume=/:/host"),
        ("--cap-drop=ALL", "--security-opt=no-new-privileges", f"--env=TOKEN={SECRET}"),
    ],
)
def test_a_wall_that_is_missing_is_seen_inside(
    words: tuple[str, ...], engine: WatchedEngine
) -> None:
    command = f"{MARK}\n{HELD}"
    walls = ("--cap-drop=ALL", "--security-opt=no-new-privileges")
    for said_to_it, is_held in ((walls, True), (words, False)):
        shown = ("run", "--rm", "--network", "none", *said_to_it, IMAGE, "bash", "-c")
        answer = engine.said(*shown, f"{command}cat held.txt", is_checked=False)
        assert ("held" in answer.split()) == is_held, answer
