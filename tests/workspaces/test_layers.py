from pathlib import Path

import pytest

from patchyard.workspaces.layers import LayerCache


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
