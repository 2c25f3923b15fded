"""A Python of this machine runs where there is nothing but what was carried along."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from patchyard.clients.bubblewrap import find_bubblewrap
from patchyard.clients.carried import carried_python
from patchyard.clients.interpreters import toolbox_interpreter
from patchyard.clients.toolbox_options import TOOLBOX_FOLDER
from patchyard.domain.errors import EnvironmentUnavailable

PLACE = "/carried"
SAY = "import sys, ctypes, hashlib, zlib; sys.path.append('/'); import toolbox.server; print(1 + 1)"


@pytest.mark.service("bubblewrap")
@pytest.mark.parametrize("which", ["the system's", "the engine's own"])
def test_it_runs_in_an_empty_root_without_any_library(tmp_path: Path, which: str) -> None:
    own = str(getattr(sys, "_base_executable", sys.executable))
    interpreter = own if which == "the engine's own" else toolbox_interpreter().path
    carried = carried_python(tmp_path, interpreter)
    assert carried == carried_python(tmp_path, interpreter)
    shown = [word for m in carried.mounts(PLACE) for word in ("--ro-bind", m.source, m.target)]
    shown += ["--ro-bind", str(TOOLBOX_FOLDER), "/toolbox", "--proc", "/proc"]
    words = [*carried.command(PLACE), "-I", "-S", "-B", "-c", SAY]
    done = subprocess.run(
        [find_bubblewrap().path, *shown, *words], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_engines_that_carry_it_at_the_same_time_do_not_meet(tmp_path: Path) -> None:
    path = toolbox_interpreter().path
    with ThreadPoolExecutor(4) as pool:
        (found,) = set(pool.map(lambda _: carried_python(tmp_path, path), range(4)))
    assert [str(place) for place in tmp_path.iterdir()] == [found.folder]


@pytest.mark.parametrize(
    ("says", "cause"),
    [
        ("echo nonsense", "does not say what it consists of"),
        ("exit 3", "does not say what it consists of"),
        ('echo \'{"libraries": ["/lib/libc.so"]}\'', "loader that can be carried"),
    ],
)
def test_what_cannot_be_carried_is_named_and_leaves_nothing(
    tmp_path: Path, says: str, cause: str
) -> None:
    odd = tmp_path / "odd"
    odd.write_text(f"#!/bin/sh\n{says}\n")
    odd.chmod(0o755)
    with pytest.raises(EnvironmentUnavailable, match=cause) as refused:
        carried_python(tmp_path / "shelf", str(odd))
    assert "/usr/bin/python3" in refused.value.hint
    assert [place.name for place in tmp_path.rglob("*")] == ["odd"]
