"""The toolbox's code is laid down on a host, and started, found, relayed and ended from there."""

import base64
import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from hosted import ID, end, home, laid, printed, request, spoken, start
from patchyard.clients.ssh_talk import code
from patchyard.clients.toolbox_options import TOOLBOX_FOLDER
from patchyard.toolbox import arriving, ending, hosting, walling

__all__ = ["home"]  # a fixture

# A toolbox outlives who starts it, and nobody waits for it here.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def test_the_code_is_laid_down_once_and_found_then(home: Path) -> None:
    assert arriving.prepare(request())["has_code"] is False
    _, place = laid(home)
    facts = arriving.prepare(request())
    assert (facts["has_code"], facts["uid"]) == (True, os.getuid())
    assert sorted(each.name for each in Path(place, "toolbox").iterdir()) == sorted(
        each.name for each in TOOLBOX_FOLDER.glob("*.py")
    )
    laid(home)  # another engine, which had looked a moment earlier
    left = [each.name for each in Path(place).parent.iterdir() if each.name.startswith("laying-")]
    assert left == []


def test_code_that_is_not_what_was_named_is_not_laid_down(home: Path) -> None:
    with pytest.raises(RuntimeError, match="did not arrive whole"):
        arriving.lay(request(files={"wire.py": base64.b64encode(b"evil").decode()}))
    with pytest.raises(RuntimeError, match="no name of a file"):
        arriving.lay(request(files={"../wire.py": ""}))
    assert [each.name for each in (home / ".cache/patchyard").iterdir()] == ["environments"]


def test_what_a_killed_life_was_laying_down_goes_after_a_day(home: Path) -> None:
    base, _ = laid(home)
    old, young = Path(base, "laying-old"), Path(base, "laying-young")
    for each in (old, young):
        each.mkdir()
    os.utime(old, (1, 1))
    laid(home)
    assert (old.exists(), young.exists()) == (False, True)


def test_changed_code_is_moved_away(home: Path) -> None:
    _, place = laid(home)
    Path(place, "toolbox/wire.py").write_text("changed\n")
    assert arriving.prepare(request())["has_code"] is False
    laid(home)
    assert arriving.prepare(request())["has_code"] is True


def test_a_place_that_cannot_be_renamed_to_says_so(home: Path) -> None:
    base = arriving.base_folder()
    Path(base, f"toolbox-{code()[0]}").write_text("a file\n")
    with pytest.raises(OSError, match="toolbox-"):
        laid(home)


def test_another_system_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert home.is_dir()
    monkeypatch.setattr(arriving, "BOOT", "/no/such/file")
    with pytest.raises(RuntimeError, match="no Linux"):
        arriving.prepare(request())


@pytest.mark.service("root")
def test_a_folder_of_somebody_else_is_refused(home: Path) -> None:
    base = arriving.base_folder()
    assert base.startswith(str(home))
    os.chown(base, 61_000, 61_000)
    with pytest.raises(RuntimeError, match="belongs to another user"):
        arriving.base_folder()


@pytest.mark.service("root")
def test_a_root_user_with_a_closed_home_keeps_environments_elsewhere(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arriving, "FOR_ALL", str(tmp_path / "all"))
    home.chmod(0o700)
    assert arriving.base_folder() == str(tmp_path / "all")
    assert (tmp_path / "all").stat().st_mode & 0o777 == 0o711


def test_requests_come_one_a_line_and_refusals_are_answers(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base, place = laid(home)
    lines = [
        request(do="prepare"),
        request(do="lay", files={}),
        request(do="state", root={"pid": 1, "started": 0}, boot="another"),
        request(do="end", id="../../etc"),
        request(do="start", id=ID),
    ]
    Path(base, "environments", ID).mkdir()
    said = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(said)))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    monkeypatch.delitem(sys.modules, "toolbox", raising=False)
    sys.path.insert(0, place)
    before = os.umask(0o022)
    try:
        arriving.serve()
    finally:
        os.umask(before)
        for name in [name for name in sys.modules if name.partition(".")[0] == "toolbox"]:
            del sys.modules[name]
    answers = [
        json.loads(line[2:]) for line in capsys.readouterr().out.splitlines() if line[:2] == "t "
    ]
    assert answers[0]["has_code"] is True
    assert "did not arrive whole" in answers[1]["refused"]
    assert answers[2] == {"is_there": False}
    assert answers[3] == {"refused": "no name of an environment"}
    assert "File exists" in answers[4]["refused"]


def test_a_toolbox_is_started_found_and_ended(home: Path) -> None:
    base, place = laid(home)
    found = start(base, place)
    folder = Path(base, "environments", ID)
    known = request(root=found["root"], boot=found["boot"])
    assert hosting.state(known, base, place) == {"is_there": True}
    assert hosting.state(known | {"boot": "another"}, base, place) == {"is_there": False}
    assert b'"say":"hello"' in spoken(found["socket"])
    assert found["workspace"] == str(folder / "workspace")
    process = Path(f"/proc/{found['root']['pid']}")
    assert b"WORK" not in process.joinpath("cmdline").read_bytes()
    told = printed(found["socket"], 'echo "$WORK $OWN $TMPDIR"')
    assert told == f"{folder}/workspace {folder} {folder}/tmp\n"
    assert end(base, found)
    assert end(base, found)
    assert not folder.exists()
    assert hosting.state(known, base, place) == {"is_there": False}


def test_ending_takes_along_what_left_the_tree(home: Path) -> None:
    base, place = laid(home)
    found = start(base, place)
    marked = {"PATH": os.defpath, ending.MARK: ID}
    words = [sys.executable, "-I", "-c", "import time; print('up', flush=True); time.sleep(300)"]
    with subprocess.Popen(
        words, env=marked, stdout=subprocess.PIPE, start_new_session=True
    ) as astray:
        assert astray.stdout is not None
        assert astray.stdout.readline() == b"up\n"  # in the middle of an exec it shows no mark
        assert end(base, found)
        assert astray.wait(60) == -signal.SIGKILL


def test_what_does_not_die_is_said_to_stay(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, place = laid(home)
    found = start(base, place)
    with monkeypatch.context() as patched:
        patched.setattr(ending, "ENDING_S", 0.05)
        patched.setattr(ending, "_send", lambda *_: None)
        assert not end(base, found)
        patched.setattr(ending, "_tree", lambda *_: {1})
        assert not end(base, found)
    assert Path(base, "environments", ID).is_dir()
    assert end(base, found)


def test_a_toolbox_that_does_not_start_leaves_its_words_alone(home: Path) -> None:
    base, place = laid(home)
    fails = "import sys; sys.exit('no such module')"
    made = start(base, place, bootstrap=fails)
    assert made == {"failed": "no answer", "said": "no such module"}
    assert list(Path(base, "environments").iterdir()) == []


def test_a_toolbox_that_never_answers_is_given_up(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, place = laid(home)
    monkeypatch.setattr(hosting, "STARTING_S", 0.1)
    made = start(base, place, bootstrap="import time; time.sleep(300)")
    assert made == {"failed": "no answer", "said": ""}
    assert list(Path(base, "environments").iterdir()) == []


def test_a_socket_that_nobody_holds_is_no_answer(tmp_path: Path) -> None:
    assert hosting._answers(lambda: False, str(tmp_path / "none"), {}) is False
    one, other = socket.socketpair()
    with one:
        one.sendall(b"x")
        other.close()
        assert hosting._receives(one) is False  # a reset, not an end


@pytest.mark.timeout(60)
def test_a_toolbox_that_takes_no_variables_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "STARTING_S", 0.1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "deaf"))
        listener.listen()
        many = {"A": "x" * 4_000_000}  # more than a socket holds
        assert hosting._answers(lambda: False, str(tmp_path / "deaf"), many) is False


def test_a_long_path_has_its_socket_elsewhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, place = laid(home)
    monkeypatch.setattr(hosting, "LONGEST_ADDRESS", 40)
    found = start(base, place)
    outside = Path(found["socket"]).parent
    assert outside.name.startswith("patchyard-")
    assert end(base, found)
    assert not outside.exists()


def test_an_agent_of_an_ordinary_user_is_that_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1234)
    assert hosting._agent() is None
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert hosting._agent() == 60_900
    monkeypatch.setattr(hosting, "_has_account", lambda _: True)
    with pytest.raises(RuntimeError, match="has an account"):
        hosting._agent()


def test_an_ordinary_user_ends_what_it_closed_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "closed"
    (folder / "in").mkdir(parents=True)
    (folder / "in").chmod(0)
    monkeypatch.setattr(os, "getuid", lambda: 1234)
    hosting._remove(str(folder))
    hosting._remove(str(folder))
    assert not folder.exists()


def test_bytes_are_relayed_until_one_side_ends(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    with listener:
        listener.bind(str(tmp_path / "sock"))
        listener.listen()

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"heard " + peer.recv(100))

        thread = threading.Thread(target=answer)
        thread.start()
        asked = {"token": "t", "socket": str(tmp_path / "sock")}
        program = f"from patchyard.toolbox import hosting; hosting.relay({asked!r}, '', '')"
        words, pipe = [sys.executable, "-c", program], subprocess.PIPE
        with subprocess.Popen(words, stdin=pipe, stdout=pipe) as relay:
            assert relay.stdin is not None
            assert relay.stdout is not None
            relay.stdin.write(b"words")
            relay.stdin.flush()
            said = relay.stdout.read()
        thread.join(60)
    assert said == b"\nt {}\nheard words"
    assert relay.returncode == 0


def test_a_report_of_walls_that_is_no_object_is_none() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"[" * 50_000)
    os.close(writing)
    assert walling.report(reading, time.monotonic() + 10) == {}


def test_the_hash_is_that_of_names_and_contents() -> None:
    digest = hashlib.sha256()
    for path in sorted(TOOLBOX_FOLDER.glob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    assert code()[0] == digest.hexdigest()[:32]
