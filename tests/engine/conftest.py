"""Places that tests of the engine share."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the agent's user may pass through to."""
    with tempfile.TemporaryDirectory(prefix="patchyard-test-") as name:
        Path(name).chmod(0o711)
        yield Path(name)
