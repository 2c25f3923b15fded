"""One file of a base by its path, as what leads a gate on is read."""

import pytest

from laboratory import Lab, started

pytestmark = pytest.mark.anyio


async def test_a_file_of_the_base_is_read_by_its_path(lab: Lab) -> None:
    (lab.repo / "link").symlink_to("a.txt")
    base = await started(lab)
    known = (lab.repo / "a.txt").read_bytes()
    (lab.repo / "a.txt").write_text("another\n")
    assert await lab.trees.file(base, "a.txt", largest=100) == known
    for path in ("link", "d", "none", "", "../a.txt", "/a.txt", "d/"):
        assert await lab.trees.file(base, path, largest=100) is None
    assert await lab.trees.file(base, "a.txt", largest=3) is None
