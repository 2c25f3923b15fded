"""The list of what lies in a workspace, and its differences as the journal holds them."""

import stat

import pytest

from patchyard.domain.errors import JournalBroken
from patchyard.domain.manifest import Entry, applied, from_rows

FILE = Entry(stat.S_IFREG | 0o644, 3, 4, 5, 6, "ab" * 32, "6.5", (("user.x", "\xff"),))


@pytest.mark.parametrize(
    "value", [None, [], {"put": {}}, {"put": {"a": [1, 2]}, "gone": []}, {"put": [], "gone": []}]
)
def test_what_is_no_difference_is_named(value: object) -> None:
    with pytest.raises(JournalBroken, match="does not fit"):
        from_rows(value)


def test_a_folder_that_is_gone_takes_along_what_lay_below() -> None:
    manifest = {"d": FILE, "d/a": FILE, "d/b/c": FILE, "da": FILE}
    applied(manifest, {"new": FILE}, ["d/", "never-there"])
    assert set(manifest) == {"d", "da", "new"}


def test_only_what_lies_in_the_store_has_a_digest() -> None:
    assert FILE.digest == FILE.held
    assert FILE._replace(held="@0").digest == ""
    assert FILE._replace(held="~").digest == ""
    assert Entry(stat.S_IFLNK | 0o777, held="target").digest == ""
