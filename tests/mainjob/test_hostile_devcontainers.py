"""Devcontainers that mean harm: before trust nothing runs, reaches out or is mounted."""

import http.server
import json
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainjob.devcontainers import linked
from mainjob.driver import Desk, finish, shell
from mainjob.hostile_devcontainers import (
    CASES,
    CONFIG,
    FEATURE_KEYS,
    KEYS,
    PASSED_OVER,
    Case,
)
from mainjob.hostile_repositories import committed, said, written
from mainjob.watched_plans import LIMIT_S, Watched, told, watched
from network_watch import NetworkWatch, watched_network
from patchyard.domain.devcontainer import Devcontainer, Sight, parse_devcontainer
from patchyard.domain.dockerfile import images_needed
from patchyard.domain.errors import PatchyardError, UsageError
from patchyard.toolbox.inside import stands_in_container
from timing import IS_SOAK
from written import Written

NOT_HAD = 4  # the exit code of what cannot be had here
#: In CI every so many of the files gets a whole plan; what each comes to is shown without one, too.
BEFORE_TRUST, AFTER_TRUST = 2, 12
PATIENCE_S = 3000


class Engine(socketserver.ThreadingUnixStreamServer):
    """In place of a container engine: has nothing, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.asked: list[str] = []
        super().__init__(str(path), Handler)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        assert isinstance(self.server, Engine)
        self.server.asked.append(f"{self.command} {self.path}")
        body: Any = {"message": "there is none"}
        code = 404
        if self.path.endswith(("/version", "/info")):
            body, code = {"ApiVersion": "1.44", "Version": "25", "OSType": "linux"}, 200
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def engine(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    with Engine(desk.folder / "engine.sock") as serving:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{desk.folder}/engine.sock")
        monkeypatch.setenv("TOKEN", "sk-very-secret")
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def test_every_key_of_the_published_schemas_is_tried() -> None:
    tried = {case.key for case in CASES}
    assert not KEYS - tried
    assert not {f"feature.{key}" for key in FEATURE_KEYS} - tried
    assert len(CASES) > 60


def read(case: Case, *, is_trusted: bool) -> Devcontainer:
    """Read a case as a plan does, its Dockerfile too. Raises PatchyardError."""
    sight = Sight(
        path=CONFIG,
        checkout="/src/shop",
        is_trusted=is_trusted,
        local={"TOKEN": "t"}.get,
        files=Written(case.files),
    )
    found = parse_devcontainer(written(case), sight)
    if found.folder and stands_in_container(found.folder):
        raise UsageError(f"{CONFIG}: workspaceFolder")
    for path in (found.build.dockerfile,) if found.build else ():
        if path in case.files:
            images_needed(case.files[path], path=path, arguments={})
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.key}: {case.tries}")
def test_a_hostile_file_is_refused_by_name_and_after_trust_takes_no_wall_away(case: Case) -> None:
    reading: dict[bool, Devcontainer | PatchyardError] = {}
    for is_trusted in (False, True):
        try:
            reading[is_trusted] = read(case, is_trusted=is_trusted)
        except PatchyardError as error:
            reading[is_trusted] = error
    before, after = reading[False], reading[True]
    if isinstance(before, PatchyardError):
        assert before.exit_code == case.code
        assert not [word for word in case.named if word not in before.message]
    else:
        assert case.code in {PASSED_OVER, NOT_HAD}
    if case.after == "over":
        assert isinstance(after, Devcontainer)
        over = " ".join(after.passed_over)
        assert not [word for word in case.named if word != CONFIG and word not in over]
    if case.code == UsageError.exit_code:
        assert isinstance(after, PatchyardError)


def wrong(case: Case, done: Watched, engine: Engine, *, code: int) -> str:
    """Say what is wrong with an answer, and with what an engine was asked for; empty: nothing."""
    text = said(done.answer)
    missing = [word for word in case.named if word not in text]
    changing = [asked for asked in engine.asked if not asked.startswith("GET ")]
    is_early = not engine.asked or code == NOT_HAD  # what is refused by what it says asks no engine
    excess = done.excess()
    if done.answer.code == code and not missing and not changing and is_early and not excess:
        return ""
    told = f"{done.answer.code}, {missing}, {engine.asked}, {excess}"
    return f"{case.tries} ({case.key}): {told}: {text[:300]}"


@pytest.fixture
def network() -> Iterator[NetworkWatch]:
    with watched_network() as watch:
        yield watch


def planned(desk: Desk, network: NetworkWatch) -> Watched:
    """Run a plan of one command in the devcontainer."""
    script = desk.script(shell("echo x > x.txt"), finish("done"))
    words = ["--model", f"scripted:{script}", "--in", "co-devcontainer", "--timeout"]
    return watched(desk, network, "run", "do it", *words, f"{LIMIT_S:g}s")


@pytest.mark.service("network-namespaces")
@pytest.mark.timeout(PATIENCE_S)
def test_before_trust_nothing_runs_reaches_out_or_is_mounted_and_the_key_is_named(
    desk: Desk, engine: Engine, network: NetworkWatch
) -> None:
    committed(desk, CASES[0])
    linked(desk)
    found, asked, plans = [], 0, []
    for case in CASES if IS_SOAK else CASES[1::BEFORE_TRUST]:
        committed(desk, case)
        engine.asked.clear()
        done = planned(desk, network)
        plans.append(done)
        found.append(wrong(case, done, engine, code=case.code or NOT_HAD))
        asked += len(engine.asked)
        assert "sk-very-secret" not in said(done.answer)
    told("before trust", plans)
    assert not any(found), "\n".join(filter(None, found))
    assert asked, "whatever asks the engine is seen"
    assert desk.ran == []


@pytest.mark.service("network-namespaces")
@pytest.mark.timeout(PATIENCE_S)
def test_after_trust_no_wall_falls_and_what_is_granted_or_passed_over_is_named(
    desk: Desk, engine: Engine, network: NetworkWatch
) -> None:
    committed(desk, CASES[0])
    linked(desk)
    found, plans = [], []
    for case in CASES if IS_SOAK else CASES[::AFTER_TRUST]:
        committed(desk, case)
        trusted = desk.agents("trust")
        engine.asked.clear()
        done = planned(desk, network)
        plans.append(done)
        text = f"{said(done.answer)}{said(trusted)}{trusted.out.decode()}"
        missing = [word for word in case.named if case.after == "over" and word not in text]
        changing = [asked for asked in engine.asked if not asked.startswith("GET ")]
        if done.answer.code not in {2, 3, NOT_HAD} or missing or changing or done.excess():
            told_of = f"{done.answer.code} {missing} {done.excess()}"
            found.append(f"{case.tries} ({case.key}): {told_of} {text[:400]}")
    told("after trust", plans)
    assert not found, "\n".join(found)
    assert desk.ran == []
