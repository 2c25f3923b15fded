"""What a program that embeds us loads: no more than it asks for."""

import json
import operator
import subprocess
import sys

import pytest

from patchyard import execution

SHOWN = "import json, sys; print(json.dumps([m for m in sys.modules if m.startswith('patchyard')]))"


def loaded(line: str) -> set[str]:
    """Return our modules that a program with this first line has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", f"{line}\n{SHOWN}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_the_package_itself_loads_nothing_of_the_engine() -> None:
    assert loaded("import patchyard.execution") == {"patchyard", "patchyard.execution"}


@pytest.mark.parametrize("name", ["CommandResult", "CopyResult", "CloneResult", "ToolExecutor"])
def test_results_and_operations_load_no_engine_whole(name: str) -> None:
    modules = loaded(f"from patchyard.execution import {name}")
    assert "patchyard.execution" in modules
    whole = {"patchyard.assembly", "patchyard.engine.workflow", "patchyard.intake"}
    assert modules & whole == set()


def test_each_name_is_there_and_listed() -> None:
    assert set(execution.__all__) == set(execution.PLACES)
    assert set(execution.__all__) <= set(dir(execution))
    for name in execution.__all__:
        assert getattr(execution, name).__name__ == name


def test_a_name_that_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="execute_tusk"):
        operator.attrgetter("execute_tusk")(execution)
