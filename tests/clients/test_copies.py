"""The toolbox's code on a shelf: made once, compiled where that works, readable by the agent."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from patchyard.clients import copies
from patchyard.clients.copies import compiled_toolbox

FULL_BYTES = 1000  # of a file, more of which is not written: as on a full disk, in part


def test_the_code_is_copied_and_compiled_once_for_each_interpreter(tmp_path: Path) -> None:
    shelf = tmp_path / "deep/shelf"

    place = compiled_toolbox(shelf, sys.executable)

    assert (place / "toolbox/server.py").is_file()
    assert list(place.glob("toolbox/__pycache__/server.*.pyc"))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (place, *place.rglob("*"))}
    assert modes == {0o755, 0o644}
    before = (place / "toolbox/server.py").stat().st_ino
    assert compiled_toolbox(shelf, sys.executable) == place
    assert (place / "toolbox/server.py").stat().st_ino == before
    assert compiled_toolbox(shelf, "/nonexistent/python3") != place
    assert len(list(shelf.iterdir())) == 2


def test_without_byte_code_it_is_the_code_alone(tmp_path: Path) -> None:
    place = compiled_toolbox(tmp_path, "/nonexistent/python3")
    assert (place / "toolbox/wire.py").is_file()
    assert not list(place.glob("toolbox/__pycache__"))


def test_byte_code_that_a_full_disk_took_in_part_is_not_kept(tmp_path: Path) -> None:
    for name, lines in (("small", 1), ("large", 200)):
        (tmp_path / f"{name}.py").write_text("".join(f"a{n} = {n}\n" for n in range(lines)))

    limited = ["prlimit", f"--fsize={FULL_BYTES}", sys.executable, "-I", "-S"]
    subprocess.run([*limited, "-c", copies.COMPILE, str(tmp_path)], check=True)

    (kept,) = tmp_path.glob("__pycache__/*.pyc")
    assert kept.name.startswith("small.")


def test_an_engine_that_was_quicker_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(made: Path) -> None:
        theirs = tmp_path / copies._version("/nonexistent/python3")
        (theirs / "toolbox").mkdir(parents=True)
        assert made.is_dir()

    monkeypatch.setattr(copies, "open_to_all", other)
    place = compiled_toolbox(tmp_path, "/nonexistent/python3")
    assert list(place.rglob("*")) == [place / "toolbox"]
    assert list(tmp_path.iterdir()) == [place]
