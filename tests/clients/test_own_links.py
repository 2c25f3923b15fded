"""Names are followed to their folder, and under root by no link of another user's."""

import os
from pathlib import Path

import pytest

from patchyard.clients.own_links import resolved
from patchyard.domain.errors import StateRefusal


@pytest.fixture
def real(tmp_path: Path) -> Path:
    folder = tmp_path / "real" / "deep"
    folder.mkdir(parents=True)
    return folder


def test_links_of_ours_are_followed_as_the_system_does(tmp_path: Path, real: Path) -> None:
    (tmp_path / "absolute").symlink_to(real.parent)
    (tmp_path / "relative").symlink_to("absolute/deep/../deep")
    (tmp_path / "round").symlink_to("round")

    for name in ("real/deep", "absolute/deep", "relative", "relative/../deep", "."):
        assert resolved(tmp_path / name) == (tmp_path / name).resolve()
    for name in ("round", "missing", "missing/deep"):
        assert resolved(tmp_path / name) == tmp_path / name


@pytest.mark.service("root")
def test_root_follows_no_link_of_another_user(tmp_path: Path, real: Path) -> None:
    link, ours = tmp_path / "link", tmp_path / "ours"
    link.symlink_to(real)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    ours.symlink_to(link)

    for name in (link, ours, link / ".." / "deep"):
        with pytest.raises(StateRefusal, match=f"{link} is a link of UID 65534"):
            resolved(name)
