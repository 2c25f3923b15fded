"""Which Python runs a toolbox on a host, and where a program lies."""

import os
import sys
from pathlib import Path

import pytest

from patchyard.toolbox import finding

AGENT = 60900


def laid(folder: Path, mode: int) -> Path:
    """A Python and its library in a folder of that mode, below one that all may pass."""
    place = folder / "pythons"
    (place / "lib").mkdir(parents=True)
    for name in ("python3", "lib/os.py"):
        (place / name).write_text("")
        (place / name).chmod(0o755)
    for each in (place, *place.parents):
        if each.stat().st_uid == os.getuid() and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o111)
    place.chmod(mode)
    return place


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Python that runs this, in a closed folder."""
    place = laid(tmp_path, 0o700)
    monkeypatch.setattr(sys, "executable", str(place / "python3"))
    monkeypatch.setattr(os, "__file__", str(place / "lib/os.py"))
    return place


def test_one_that_stays_who_it_is_runs_on_what_it_was_called_with(own: Path) -> None:
    assert finding.python(None) == str(own / "python3")


def test_one_that_becomes_another_user_runs_on_what_that_user_can_read(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "SYSTEM_PYTHON", "/bin/sh")
    assert finding.python(AGENT) == "/bin/sh"
    own.chmod(0o755)
    assert finding.python(AGENT) == str(own / "python3")
    own.chmod(0o700)
    monkeypatch.setattr(finding, "SYSTEM_PYTHON", str(tmp_path / "none"))
    with pytest.raises(RuntimeError, match="which another user cannot read"):
        finding.python(AGENT)


def test_a_program_is_asked_that_a_relative_entry_of_path_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "bin/told"
    place.parent.mkdir()
    place.write_text("#!/bin/sh\necho told 1.2\n")
    place.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "bin")

    assert finding.program("told", ()) == (str(place), "told 1.2")
