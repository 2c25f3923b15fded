"""What the tests of our far program share: a home of a host's user, in this very process."""

import os
import pwd
import shutil
import socket
import struct
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients.clock import SystemClock
from patchyard.clients.ssh_talk import code
from patchyard.clients.toolbox_options import BOOTSTRAP
from patchyard.toolbox import arriving, ending, engines, hosting
from patchyard.toolbox.wire import Decoder, encode

__all__ = ["ID", "end", "home", "laid", "options", "printed", "request", "spoken", "start"]

ID = SystemClock().new_id()  # an end kills whoever on this machine carries it
PATIENT_S = 60.0  # with a toolbox that starts or ends, and an engine, on a busy machine
HELLO = b'{"do":"hello"}'


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of the user who runs this, as the user database would say; waits are long."""
    folder = Path(tempfile.mkdtemp(prefix="home-", dir="/tmp"))
    folder.chmod(0o755)
    real = pwd.getpwuid

    def made_up(uid: int) -> Any:
        own = pwd.struct_passwd(("somebody", "x", uid, 0, "", str(folder), "/bin/sh"))
        return own if uid == os.getuid() else real(uid)

    monkeypatch.setattr(pwd, "getpwuid", made_up)
    waits = ((ending, "ENDING_S"), (engines, "ANSWER_S"), (hosting, "STARTING_S"))
    for place, name in waits:
        monkeypatch.setattr(place, name, PATIENT_S)
    yield folder
    shutil.rmtree(folder)


def request(**fields: Any) -> dict[str, Any]:
    return {"token": "t", "hash": code()[0], **fields}


def laid(home: Path) -> tuple[str, str]:
    """Where the code lies, laid down now."""
    arriving.lay(request(files=dict(code()[1])))
    base = arriving.base_folder()
    assert base == str(home / ".cache/patchyard")
    return base, f"{base}/toolbox-{code()[0]}"


def options(**more: Any) -> Mapping[str, Any]:
    return {"grace_s": 20.0, **more}


VARIABLES = {"PATH": "", "WORK": "{workspace}", "OWN": "{folder}"}


def start(base: str, place: str, **more: Any) -> dict[str, Any]:
    own = {"options": options(), "variables": VARIABLES, "bootstrap": BOOTSTRAP}
    asked = request(id=ID, **own) | more
    return hosting.start(asked, base, place)


def end(base: str, found: Mapping[str, Any]) -> bool:
    asked = request(id=ID, root=found["root"], boot=found["boot"])
    return bool(hosting.end(asked, base, "")["has_ended"])


def spoken(path: str) -> bytes:
    """What a toolbox says to a greeting."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        peer.sendall(struct.pack(">I", len(HELLO)) + HELLO)
        return peer.recv(4096)


def printed(path: str, command: str) -> str:
    """What a command of a toolbox prints."""
    args = {"command": command}
    asked = {"do": "call", "call_id": "c", "op": "execute_command", "args": args}
    decoder = Decoder()
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        peer.sendall(encode(asked))
        while True:
            for each in decoder.feed(peer.recv(4096)):
                if each["say"] == "result":
                    return str(each["result"]["stdout"])
