"""A toolbox on a host whose start was never answered: ended by its mark, by an ordinary user too.

The toolbox shows its environment to root alone.
"""

from pathlib import Path

import pytest

from hosted import end, home, laid, start
from patchyard.toolbox import ending

__all__ = ["home"]  # a fixture

# A toolbox outlives who starts it, and is not waited for here.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def test_a_toolbox_that_is_not_named_is_ended_by_its_mark(ordinary: Path, home: Path) -> None:
    assert ordinary.is_dir()
    base, place = laid(home)
    found = start(base, place)
    assert ending.is_alive(found["root"])

    assert end(base, {**found, "root": None})

    assert not ending.is_alive(found["root"])
