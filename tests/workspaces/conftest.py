import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from laboratory import Lab, lab_at
from patchyard.clients.mounts import is_mounted, unmount


@contextlib.contextmanager
def _cleared(place: Path) -> Iterator[None]:
    try:
        yield
    finally:
        for root in place.glob("plans/*/root"):
            if is_mounted(root):
                unmount(root)
        plans = place / "plans"
        if plans.exists():  # an ordinary user enters no folder that a test has closed
            subprocess.run(["chmod", "-R", "u+rwX", str(plans)], check=True)
        subprocess.run(["rm", "-rf", "--one-file-system", str(plans)], check=True)


@pytest.fixture(
    params=[
        pytest.param(
            "overlay", marks=[pytest.mark.service("overlay"), pytest.mark.service("root")]
        ),
        "copy",
    ]
)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    """A laboratory for each strategy."""
    with _cleared(tmp_path):
        yield lab_at(tmp_path, request.param)


@pytest.fixture
def copying(tmp_path: Path) -> Iterator[Lab]:
    """A laboratory where the strategy does not matter."""
    with _cleared(tmp_path):
        yield lab_at(tmp_path, "copy")


@pytest.fixture
def overlaid(tmp_path: Path) -> Iterator[Lab]:
    """A laboratory with overlays alone; its tests carry the marks."""
    with _cleared(tmp_path):
        yield lab_at(tmp_path, "overlay")
