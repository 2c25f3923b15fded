from pathlib import Path

import pytest

from patchyard.workspaces.layers import LayerCache, lying_over
from patchyard.workspaces.sight import GITLINK, Tracked


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """What a setup wrote, with the synthetic git folder that every workspace has."""
    folder = tmp_path / "written"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/base\n")
    (folder / "lib").mkdir()
    (folder / "lib/module.py").write_text("x = 1\n")
    return folder


def test_a_layer_is_found_once_it_is_kept(tmp_path: Path, written: Path) -> None:
    cache = LayerCache(tmp_path / "layers", "here")
    assert cache.find("k") is None

    kept = cache.keep("k", written)

    assert cache.find("k") == kept
    assert cache.find("other") is None
    assert (kept / "lib/module.py").read_text() == "x = 1\n"
    assert not (kept / ".git").exists()
    assert not written.exists()


def test_the_first_of_two_that_made_the_same_layer_wins(tmp_path: Path, written: Path) -> None:
    cache = LayerCache(tmp_path / "layers", "here")
    first = tmp_path / "first"
    (first / "lib").mkdir(parents=True)
    (first / "lib/module.py").write_text("x = 0\n")

    kept = cache.keep("k", first)

    assert cache.keep("k", written) == kept
    assert (kept / "lib/module.py").read_text() == "x = 0\n"
    assert not written.exists()


def test_a_layer_that_cannot_be_moved_is_an_error_and_stays(tmp_path: Path, written: Path) -> None:
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers/k").write_text("somebody's file")
    with pytest.raises(NotADirectoryError):
        LayerCache(tmp_path / "layers", "here").keep("k", written)
    assert (written / "lib/module.py").exists()


def test_what_a_layer_may_not_hold_is_taken_out_through_no_link(
    tmp_path: Path, written: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept\n")
    (written / ".git/HEAD").unlink()
    (written / ".git").rmdir()
    (written / ".git").symlink_to(outside)
    (written / "link").symlink_to(outside)
    (written / "lib/deep").mkdir()

    kept = LayerCache(tmp_path / "layers", "here").keep("k", written, without=["link", "lib/deep"])

    assert sorted(path.name for path in kept.rglob("*")) == ["lib", "module.py"]
    assert (outside / "kept").exists()
    assert kept.parent.stat().st_mode & 0o777 == 0o700


def test_a_path_of_a_layer_lies_over_what_it_would_hide(written: Path) -> None:
    for place in ("folder/in", "sub/in", "deep/er"):
        (written / place).mkdir(parents=True)
    (written / "file").write_text("")
    tracked = Tracked(
        {
            "lib/module.py": ("100644", ""),
            "lib/other.py": ("100644", ""),
            "folder": ("120000", ""),
            "file/below": ("100644", ""),
            "sub": (GITLINK, ""),
            "deep/er/x": ("100644", ""),
        }
    )
    assert lying_over(written, tracked) == ["file", "folder", "lib/module.py"]
