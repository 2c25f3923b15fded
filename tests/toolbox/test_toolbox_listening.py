"""The loopback device of a new network namespace, brought up by whoever may."""

import json
import subprocess
import sys
from typing import Any

import pytest

CODE = """
import errno, json, socket
from patchyard.toolbox.listening import open_listener
try:
    with open_listener() as listener:
        with socket.create_connection(listener.getsockname()[:2], timeout=60) as peer:
            print(json.dumps({"peer": peer.getpeername()[0]}))
except OSError as error:
    print(json.dumps({"errno": error.errno}))
"""

pytestmark = pytest.mark.service("user-namespaces")


def listened(*prefix: str) -> Any:
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", *prefix, sys.executable, "-c", CODE],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return json.loads(done.stdout)


def test_a_loopback_that_is_down_is_brought_up() -> None:
    assert listened() == {"peer": "127.0.0.1"}


def test_who_may_not_bring_it_up_gets_the_error() -> None:
    dropped = ("setpriv", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs")
    assert listened(*dropped) == {"errno": 1}
