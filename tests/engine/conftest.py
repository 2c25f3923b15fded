"""Places that tests of the engine share."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from engine.worksite import Worksite


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the agent's user may pass through to."""
    with tempfile.TemporaryDirectory(prefix="patchyard-test-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
def files() -> dict[str, str]:
    """What is committed in the repository of `site`."""
    return {"a.txt": "one\n"}


@pytest.fixture
async def site(tmp_path: Path, files: dict[str, str]) -> AsyncIterator[Worksite]:
    """A repository and a home to drive plans with; nothing of it is left mounted."""
    made = Worksite.make(tmp_path, files)
    yield made
    await made.clear()
