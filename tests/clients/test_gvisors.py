"""How old the gVisor of a container engine is, asked of programs that stand in for it."""

from pathlib import Path
from typing import Any

import pytest

from patchyard.clients import gvisors
from patchyard.clients.docker import ContainerEngine
from patchyard.clients.gvisors import day_of_runtime, old_gvisors

pytestmark = pytest.mark.anyio


class Told:
    """What an engine tells of its runtimes."""

    def __init__(self, **programs: Path | str) -> None:
        self.system = self
        self._programs = programs

    async def info(self) -> dict[str, Any]:
        known = {name.replace("_", "-"): {"path": str(p)} for name, p in self._programs.items()}
        return {"Runtimes": known}


def engine(**programs: Path | str) -> ContainerEngine:
    return ContainerEngine(Told(**programs), "/engine.sock")


def program(folder: Path, line: str) -> Path:
    made = folder / "runsc"
    made.write_text(f"#!/bin/sh\n{line}\n")
    made.chmod(0o755)
    return made


async def test_the_old_ones_are_named_with_their_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gvisors, "ANSWER_S", 60.0)
    (tmp_path / "new").mkdir()
    old = program(tmp_path, 'echo "runsc version 0.0~20221219.0"')
    new = program(tmp_path / "new", 'echo "runsc version release-20260901.0"')
    known = engine(runc=old, runsc=old, runsc_systrap=new)
    assert await old_gvisors(known) == {"runsc": "2022-12-19"}
    assert await day_of_runtime(known, "runsc-systrap") == "2026-09-01"


@pytest.mark.parametrize("line", ["exit 1", "exec sleep 60"])
async def test_a_program_that_tells_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr(gvisors, "ANSWER_S", 0.2)
    assert await old_gvisors(engine(runsc=program(tmp_path, line))) == {}


@pytest.mark.parametrize("path", ["", "runsc", "/nonexistent/runsc"])
async def test_one_that_is_not_here_is_not_called_old(path: str) -> None:
    assert await old_gvisors(engine(runsc=path)) == {}
