import gc
from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path

import pytest

from patchyard.clients.controls import Control
from patchyard.toolbox import grep, listing
from toolboxes import Operations


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operations]:
    for place, name in ((grep, "ONE_FILE_S"), (listing, "STEP_LIMIT_S")):
        monkeypatch.setattr(place, name, 60.0)  # a machine may stop for some seconds
    workspace = tmp_path / "work"
    workspace.mkdir()
    operations = Operations(workspace)
    yield operations
    operations.room.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a warden, which a busy machine starts slowly, a minute for an answer."""
    for name in ("ask", "tell"):
        lasting = partialmethod(getattr(Control, name), timeout_s=60.0)
        monkeypatch.setattr(Control, name, lasting)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Let descriptors that earlier tests left go before or after those that a test counts."""
    gc.disable()
    yield
    gc.enable()
