"""`plan verify` says what is lost of what a plan's events name: contents of checkpoints, trees."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mainjob.driver import Desk, finish, shell, write

pytestmark = [pytest.mark.service("bubblewrap")]

SIZE = 3_000_000  # lies in a file of its own, not in a pack


def lose(place: Path) -> None:
    place.unlink()


def alter(place: Path) -> None:
    content = bytearray(place.read_bytes())
    content[len(content) // 2] ^= 1
    place.write_bytes(content)


def verified(desk: Desk) -> tuple[int, list[str]]:
    said = desk.agents("plan", "verify")
    return said.code, said.data["lost"]


@pytest.mark.parametrize(("damage", "how"), [(lose, "missing"), (alter, "damaged")])
def test_a_content_of_a_checkpoint_is_named_with_its_file(
    desk: Desk, damage: Callable[[Path], None], how: str
) -> None:
    ran = desk.run(
        shell(f"head -c {SIZE} /dev/zero | tr '\\0' x > large.bin"),
        shell("echo 1 > small.txt"),
        finish(),
    )
    assert verified(desk) == (0, [])
    digest = hashlib.sha256(b"x" * SIZE).hexdigest()
    space = desk.folder / "state" / "checkpoints" / ran.data["plan_id"]
    damage(space / digest[:2] / digest[2:])

    code, (said,) = verified(desk)

    assert code == 1
    assert said.startswith("checkpoint ")
    assert said.endswith(f"the content of large.bin is {how}")


def test_small_contents_that_went_with_their_pack_are_named(desk: Desk) -> None:
    ran = desk.run(write("a.new", "a\n"), shell("echo 1 > small.txt"), finish())
    space = desk.folder / "state" / "checkpoints" / ran.data["plan_id"]
    for pack in space.glob("*.pack"):
        pack.unlink()

    code, said = verified(desk)

    assert code == 1
    assert any("a.new" in each and "missing" in each for each in said)


def test_a_result_that_is_lost_is_named_and_made_anew_from_the_last_checkpoint(desk: Desk) -> None:
    desk.run(write("x", "x\n"), finish())
    (store,) = (desk.folder / "state" / "trees").glob("*/store.git")
    for place in store.glob("objects/*/*"):
        if place.suffix == ".pack" or len(place.parent.name) == 2:
            place.unlink()
    code, said = verified(desk)
    assert (code, [each for each in said if each.startswith("the result lost")]) == (1, said[-1:])

    refused = desk.agents("plan", "diff")
    assert (refused.code, b"`agents plan rollback ID`" in refused.out) == (4, True)
    last = desk.agents("plan", "status").data["execution"]["checkpoints"][-1]["checkpoint_id"]
    assert desk.agents("plan", "rollback", "@last", last, "--yes").code == 0
    resumed = desk.agents("plan", "resume")
    assert (resumed.code, resumed.changed) == (0, {"x": "added"}), resumed.message
    assert verified(desk) == (0, [])
