"""Folders of a checkout that are closed to this user: a base does not pass over what is in them."""

from pathlib import Path

import pytest

from laboratory import Lab, git, lab_at
from patchyard.domain.errors import UsageError

pytestmark = pytest.mark.anyio


async def names(lab: Lab) -> set[str]:
    base = await lab.base()
    return set(lab.trees.entries(base, base.tree))


def closed(place: Path, mode: int) -> Lab:
    """Return a checkout whose folder `d`, with an edit and a new file, has that mode."""
    lab = lab_at(place, "copy")
    lab.write({"a": "a\n", "d/b": "b\n"})
    lab.commit()
    lab.write({"d/b": "edited\n", "d/new": "new\n"})
    (lab.repo / "d").chmod(mode)
    return lab


@pytest.mark.parametrize("mode", [0, 0o311, 0o444])
async def test_a_closed_folder_with_tracked_files_is_named(ordinary: Path, mode: int) -> None:
    lab = closed(ordinary, mode)
    try:
        with pytest.raises(UsageError, match=r"/repo/d.* cannot be read") as caught:
            await lab.base()
    finally:
        (lab.repo / "d").chmod(0o755)

    assert "--base head" in caught.value.hint
    assert await names(lab) == {"a", "d/b", "d/new"}


@pytest.mark.parametrize("name", ["two\nlines", "es\x1bcape", "d\udcff"])
@pytest.mark.parametrize("is_tracked", [True, False])
async def test_a_closed_folder_of_an_odd_name_is_not_passed_over(
    ordinary: Path, name: str, *, is_tracked: bool
) -> None:
    """Git's warnings have line breaks as they are, and other signs in the place of some."""
    lab = lab_at(ordinary, "copy")
    lab.write({"a": "a\n", **({f"{name}/b": "b\n"} if is_tracked else {})})
    lab.commit()
    lab.write({f"{name}/new": "new\n"})
    (lab.repo / name).chmod(0o311)
    try:
        if is_tracked:
            with pytest.raises(UsageError, match="cannot be read"):
                await lab.base()
        else:
            assert len((await lab.base()).left_out) == 1
    finally:
        (lab.repo / name).chmod(0o755)


@pytest.mark.parametrize("mode", [0, 0o111])
async def test_a_closed_folder_without_tracked_files_is_left_out(ordinary: Path, mode: int) -> None:
    lab = lab_at(ordinary, "copy")
    lab.write({"a": "a\n", ".gitignore": "ignored\n"})
    lab.commit()
    for name in ("new/d\xe9", "ignored"):
        lab.write({f"{name}/f": "f\n"})
        (lab.repo / name).chmod(mode)
    try:
        base = await lab.base()
    finally:
        for name in ("new/d\xe9", "ignored"):
            (lab.repo / name).chmod(0o755)

    assert base.left_out == ("new/d\xe9",)
    assert await names(lab) == {".gitignore", "a", "new/d\xe9/f"}


async def test_closed_rules_are_named(ordinary: Path) -> None:
    """Git goes on without them, and what they ignore would be a part of the base."""
    lab = lab_at(ordinary, "copy")
    lab.write({"d/.gitignore": "secret\n"})
    lab.commit()
    git(lab.repo, "update-index", "--assume-unchanged", "d/.gitignore")
    lab.write({"d/secret": "secret\n"})
    (lab.repo / "d/.gitignore").chmod(0)

    with pytest.raises(UsageError, match="gitignore cannot be read"):
        await lab.base()
