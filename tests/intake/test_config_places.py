from pathlib import Path

import pytest

from patchyard.config import places
from patchyard.domain.errors import UsageError


@pytest.mark.parametrize("name", ["PATCHYARD_HOME", "WORKSPACE_DIR"])
def test_a_home_of_nobody_is_named_with_its_variable(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is ~nobody-at-all/x, and there is no such user"):
        places({"HOME": "/nowhere", name: "~nobody-at-all/x"})


@pytest.mark.parametrize("name", ["PATCHYARD_HOME", "WORKSPACE_DIR"])
def test_a_relative_folder_is_refused_with_the_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=f"{name} is state/x, a relative path") as refused:
        places({"HOME": "/nowhere", name: "state/x"})
    assert refused.value.hint == f"write the whole path: {name}={tmp_path}/state/x"
    environ = {"PATCHYARD_HOME": "~/x", "WORKSPACE_DIR": "~/work"}
    assert places(environ).home == Path.home() / "x"
    assert places(environ).tasks == Path.home() / "work/tasks"
