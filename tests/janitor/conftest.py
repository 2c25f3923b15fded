"""A repository and a home whose leftovers are returned."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.worksite import Worksite


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    """A repository and a home to drive plans with; nothing of it is left mounted."""
    made = Worksite.make(tmp_path, {"a.txt": "one\n"})
    yield made
    await made.clear()


@pytest.fixture(autouse=True)
def _own_temporary_folder(own_temporary_folder: Path) -> None:
    """Days pass here in a moment."""
