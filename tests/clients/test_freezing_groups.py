"""Control groups of both versions that are asked to stand still."""

from pathlib import Path

import pytest

from patchyard.clients import cgroups, freezing
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment


def group(folder: Path, **files: str) -> tuple[str, ...]:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return (str(folder),)


def test_a_group_of_version_2_stands_when_its_events_say_so(tmp_path: Path) -> None:
    found = group(tmp_path, cgroup_freeze="0", cgroup_events="populated 1\nfrozen 1\n")
    assert freezing.can_freeze(found)
    assert freezing._freeze(found)
    assert (tmp_path / "cgroup.freeze").read_text() == "1"


def test_a_group_that_does_not_stand_in_time_is_said_to_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freezing, "FREEZING_S", 0.01)
    found = group(tmp_path, freezer_state="FREEZING")
    monkeypatch.setattr(cgroups, "freeze", lambda _group: True)
    assert not freezing._freeze(found)


def test_where_there_is_no_group_nothing_can_be_frozen(tmp_path: Path) -> None:
    assert not freezing.can_freeze((str(tmp_path),))
    assert not freezing.can_freeze(())


def test_an_environment_of_an_earlier_boot_has_nothing_that_runs() -> None:
    handle = EnvironmentHandle(
        environment_id="01J00000000000000000000000",
        kind=ExecutionEnvironment.PROCESS,
        workspace_path="/srv",
        details={"boot": "another", "init": {"pid": 1, "started": 1}},
    )
    assert not freezing._is_busy(handle, "init")
