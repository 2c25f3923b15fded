"""What stayed in a place that held a copy of the workspace becomes findings that block nothing."""

import pytest

from patchyard.domain.changeset import ChangeSet, FindingKind
from patchyard.domain.left_out import MOST_CHARS, bounded, with_left_out

NOTHING = ChangeSet(id="cs-1", base_tree="1", tree="1")


@pytest.mark.parametrize(
    ("why", "kind"),
    [
        ("a FIFO", FindingKind.SPECIAL_FILE),
        ("a socket", FindingKind.SPECIAL_FILE),
        ("a device", FindingKind.SPECIAL_FILE),
        ("its setuid bit", FindingKind.SETUID),
        ("its attributes user.mark", FindingKind.XATTR),
        ("unreadable: Permission denied", FindingKind.UNREADABLE),
        ("its name begins like those of files that are not whole yet", FindingKind.REFUSED_NAME),
        ("no room: the limit `disk` is 1 MiB", FindingKind.TOO_LARGE),
        ("too deep", FindingKind.TOO_LARGE),
    ],
)
def test_each_reason_has_its_kind(why: str, kind: FindingKind) -> None:
    (finding,) = with_left_out(NOTHING, [[("a", why)], [("a", why)]]).findings
    assert (finding.kind, finding.path, finding.blocks_apply) == (kind, "a", False)
    assert why in finding.message


def test_one_event_holds_no_more_than_has_room_in_it() -> None:
    many = [(f"{number}-{'x' * 200}", "a FIFO") for number in range(100)]
    kept = bounded(many)
    assert kept == tuple(many[: len(kept)])
    assert MOST_CHARS / 2 < 2 * sum(len(path) for path, _ in kept) < MOST_CHARS
