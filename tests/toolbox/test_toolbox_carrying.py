"""A toolbox in walls, on a host: made there, in the engine's own words."""

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hosted import ID, end, home, laid, request, spoken
from images import WITH_PYTHON, bare_image, image
from patchyard.clients import far_walls
from patchyard.clients.as_asked import require_as_asked
from patchyard.clients.docker import engine_socket
from patchyard.clients.far_containers import FarEngine, container_on, etc_on, far_engine
from patchyard.clients.toolbox_options import TOOLBOX_FOLDER
from patchyard.domain.address import Address
from patchyard.domain.environment import EnvironmentSpec, Mount
from patchyard.toolbox import containing, detaching, ending, engines, hosting

__all__ = ["home"]  # a fixture

# A toolbox outlives who starts it, and nobody waits for it here.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def spec_there() -> EnvironmentSpec:
    target = Mount(source="", target="/srv/shop", is_writable=False)
    return EnvironmentSpec(plan_id="", purpose="strategize", workspace=target)


def walls_in(base: str, place: str) -> tuple[far_walls.FarHost, dict[str, Any]]:
    """What this machine says of itself, and the walls that an engine makes of that."""
    said = hosting.look(request(id=ID, **far_walls.ASKED), base, place)
    host = far_walls.far_host(Address(host="here"), json.loads(json.dumps(said)))
    return host, json.loads(json.dumps(far_walls.walls_on(host, spec_there())))


@pytest.mark.service("bubblewrap")
def test_a_toolbox_is_started_in_walls_that_the_engine_words(home: Path) -> None:
    base, place = laid(home)
    _, walls = walls_in(base, place)
    found = hosting.start(request(id=ID, walls=walls), base, place)
    seen = Path(f"/proc/{found['root']['pid']}/status").read_text()
    assert f"NSpid:\t{found['root']['pid']}\t1" in seen
    assert b'"say":"hello"' in spoken(found["socket"])
    assert end(base, {**found, "root": None})  # its engine was killed before it knew
    assert not ending.is_alive(found["root"])


@pytest.mark.service("bubblewrap")
def test_walls_that_did_not_come_up_are_told_and_leave_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, place = laid(home)
    host, walls = walls_in(base, place)
    open_net = [word for word in walls["argv"] if word != "--unshare-net"]
    weaker = hosting.start(request(id=ID, walls=walls | {"argv": open_net}), base, place)
    assert weaker == {"failed": "net namespace", "said": ""}
    unknown = [walls["argv"][0], "--no-such-option"]
    silent = hosting.start(request(id=ID, walls=walls | {"argv": unknown}), base, place)
    assert (silent["failed"], "no-such-option" in silent["said"]) == ("no answer", True)
    monkeypatch.setattr(hosting, "STARTING_S", 0.1)
    slow = ["/bin/sleep", "300"]
    given_up = hosting.start(request(id=ID, walls=walls | {"argv": slow}), base, place)
    assert given_up == {"failed": "no answer", "said": ""}
    for argv in ([], ["/no/such/program"]):
        with pytest.raises((OSError, IndexError)):
            hosting.start(request(id=ID, walls=walls | {"argv": argv}), base, place)
    files = {"9": "/no/such/file"}
    with pytest.raises(FileNotFoundError):
        hosting.start(request(id=ID, walls=walls | {"files": files}), base, place)
    assert host.workspace == f"{base}/environments/{ID}/workspace"
    assert list(Path(base, "environments").iterdir()) == []


def contained(base: str, place: str, image: str) -> tuple[FarEngine, dict[str, Any]]:
    asked = request(id=ID, places=[engine_socket(os.environ)], image=image)
    host = far_engine(
        Address(host="here"), json.loads(json.dumps(hosting.look(asked, base, place))), image
    )
    made = container_on(host, spec_there(), ID)
    own = {"config": made.config, "variables": dict(made.variables)}
    accounts = etc_on(host, spec_there())
    return host, {**asked, **own, "engine": host.socket, "accounts": accounts}


@pytest.mark.service("docker")
def test_a_toolbox_is_started_in_a_container_that_the_engine_words(home: Path) -> None:
    base, place = laid(home)
    host, asked = contained(base, place, image(WITH_PYTHON))
    made = hosting.create(asked, base, place)
    require_as_asked(made["made"], container_on(host, spec_there(), ID))
    found = hosting.run({**asked, "is_podman": False, "is_closed": True}, base, place)
    assert b'"say":"hello"' in spoken(found["socket"])
    known = {**asked, "root": found["root"], "boot": found["boot"]}
    away = {**known, "places": ["/no/such/socket", "/etc/hostname"]}
    with pytest.raises(RuntimeError, match="no container engine"):
        hosting.end(away, base, place)
    assert hosting.end(known, base, place) == {"has_ended": True}
    assert hosting.end(known, base, place) == {"has_ended": True}
    assert hosting.end(away, base, place) == {"has_ended": True}  # nothing was ever made, or left


@pytest.mark.service("docker")
def test_a_container_that_does_not_serve_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, place = laid(home)
    _, asked = contained(base, place, bare_image({}))
    run = {**asked, "is_podman": False, "is_closed": False}
    with pytest.raises(RuntimeError, match="the container engine refused"):
        hosting.create(
            {**asked, "config": {**asked["config"], "Image": f"sha256:{0:064}"}}, base, place
        )
    for words, failed, said in (
        (asked["config"]["Entrypoint"], "shell", ""),
        (["/run/patchyard/python/no"], "refused", ""),
        ([*asked["config"]["Entrypoint"], "-c", "print('no', flush=True)"], "an answer", "no"),
    ):
        command = asked["config"]["Cmd"] if failed == "shell" else []
        config = {**asked["config"], "Entrypoint": words, "Cmd": command}
        hosting.create({**asked, "config": config}, base, place)
        if failed == "refused":
            with pytest.raises(RuntimeError, match="the container engine refused"):
                hosting.run(run, base, place)
        else:
            assert hosting.run(run, base, place) == {"failed": failed, "said": said}
        assert hosting.end({**run, "root": None, "boot": ""}, base, place)["has_ended"]
    monkeypatch.setattr(containing, "STARTING_S", 0.0)
    waiting = [*asked["config"]["Entrypoint"], "-c", "import time; time.sleep(600)"]
    hosting.create(
        {**asked, "config": {**asked["config"], "Entrypoint": waiting, "Cmd": []}}, base, place
    )
    assert hosting.run(run, base, place) == {"failed": "an answer", "said": ""}
    assert hosting.end({**run, "root": None, "boot": ""}, base, place)["has_ended"]
    monkeypatch.setattr(engines, "ANSWER_S", 1.0)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(home / "engine"))
        silent.listen()
        with pytest.raises(RuntimeError, match="does not answer"):
            engines.Engine(str(home / "engine")).version()


def test_a_host_without_an_engine_says_so(home: Path) -> None:
    base, place = laid(home)
    asked = request(id=ID, places=["/no/such/socket", "{own}/none.sock"], image="x")
    assert hosting.look(asked, base, place)["engine"] == ""


@contextlib.contextmanager
def answering(place: Path, said: bytes) -> Iterator[str]:
    """Give the path of a socket that answers so to the first words of the first who connects."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        yield str(place)
        thread.join(60)


@pytest.mark.parametrize("said", [b"", b"\0\0\0\2{}", b"\0\0\0\2[]", b"HTTP/1.1 200 OK"])
def test_a_toolbox_that_says_no_greeting_is_not_waited_for(tmp_path: Path, said: bytes) -> None:
    with answering(tmp_path / "toolbox", said) as toolbox:
        assert containing.greeting(toolbox) == {}


def test_a_toolbox_that_says_its_greeting_without_end_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containing, "STARTING_S", 0.1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "toolbox"))
        listener.listen()
        is_over = threading.Event()

        def answer() -> None:
            peer, _ = listener.accept()
            with peer, contextlib.suppress(OSError):
                peer.sendall(b"\0\1\0\0")
                while not is_over.wait(0.02):
                    peer.sendall(b" ")

        thread = threading.Thread(target=answer)
        thread.start()
        assert containing.greeting(str(tmp_path / "toolbox")) == {}
        is_over.set()
        thread.join()


@pytest.mark.parametrize("said", [b"nonsense", b"[" * 200_000])
def test_what_an_engine_answers_is_a_claim(tmp_path: Path, said: bytes) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said)
    with (
        answering(tmp_path / "engine", answer) as engine,
        pytest.raises(RuntimeError, match="it answered nonsense"),
    ):
        engines.Engine(engine).version()


@pytest.mark.parametrize("facts", ["", "?", "e30", "W10=", base64.b64encode(b"[" * 9_000).decode()])
def test_what_an_engine_says_of_a_path_is_a_claim(tmp_path: Path, facts: str) -> None:
    answer = f"HTTP/1.1 200 OK\r\n{engines.PATH_FACTS}: {facts}\r\n\r\n".encode()
    with (
        answering(tmp_path / "engine", answer) as engine,
        pytest.raises(RuntimeError, match="does not tell what lies at /etc"),
    ):
        engines.Engine(engine).link("x", "/etc")


@pytest.mark.service("user-namespaces")
def test_an_ordinary_user_detaches_a_folder_in_namespaces_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    folder = detaching.detached(str(tmp_path))
    try:
        assert os.fstat(folder).st_ino == tmp_path.stat().st_ino
        above = os.stat("..", dir_fd=folder)
        assert above.st_ino == tmp_path.stat().st_ino
    finally:
        os.close(folder)
    with pytest.raises(OSError, match="may not make a mount"):
        detaching.detached(str(tmp_path / "none"))


NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
UPWARDS = """
import os, sys
sys.path.insert(0, sys.argv[1])
from toolbox.detaching import detached
folder = detached(sys.argv[2])
above = os.open("..", os.O_RDONLY, dir_fd=folder)
print(os.path.sameopenfile(folder, above), os.listdir(above))
open("/proc/self/fd/%d/new" % folder, "w").close()
try:
    detached(sys.argv[2] + "/none")
except OSError as error:
    print("refused")
"""


@pytest.mark.service("root")
@pytest.mark.parametrize("prefix", [(), NOBODY])
def test_a_detached_folder_leads_nowhere_else(prefix: tuple[str, ...]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="folder-", dir="/tmp"))
    try:
        code = folder / "code"
        shutil.copytree(TOOLBOX_FOLDER, code / "toolbox")
        (folder / "open").mkdir(mode=0o777)
        for path in (folder, folder / "open"):
            path.chmod(0o777)
        words = [*prefix, "/usr/bin/python3", "-c", UPWARDS, str(code), str(folder / "open")]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr[-300:]) == ("True []\nrefused\n", "")
        assert [each.name for each in (folder / "open").iterdir()] == ["new"]
    finally:
        shutil.rmtree(folder)
