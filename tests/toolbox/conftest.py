from collections.abc import Iterator
from pathlib import Path

import pytest

from toolboxes import Operations


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Operations]:
    workspace = tmp_path / "work"
    workspace.mkdir()
    operations = Operations(workspace)
    yield operations
    operations.room.close()
