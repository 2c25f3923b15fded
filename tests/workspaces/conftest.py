import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from laboratory import Lab, lab_at
from patchyard.clients.mounts import is_mounted, unmount
from services import need

NOBODY = 65534


@contextlib.contextmanager
def _cleared(place: Path) -> Iterator[None]:
    try:
        yield
    finally:
        for root in place.glob("plans/*/root"):
            if is_mounted(root):
                unmount(root)
        subprocess.run(["rm", "-rf", "--one-file-system", str(place / "plans")], check=True)


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


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of an ordinary user, as whom the test runs even where the suite is root's."""
    need("readable-python")
    place = Path(tempfile.mkdtemp(prefix="ordinary-"))
    monkeypatch.setenv("HOME", str(place))
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(place, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield place
    if is_root:
        os.seteuid(0)
    shutil.rmtree(place)
