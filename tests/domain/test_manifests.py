"""A manifest whose package scripts changed runs by itself; any other change to it does not."""

import pytest

from patchyard.domain.manifests import have_scripts_changed, is_manifest


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        (b'{"version": "1"}', b'{"version": "2"}', False),
        (b'{"scripts": {"test": "a"}}', b'{"scripts": {"test": "a"}, "x": 1}', False),
        (b'{"scripts": {"test": "a"}}', b'{"scripts": {"test": "b"}}', True),
        (b"{}", b'{"scripts": {"postinstall": "a"}}', True),
        (b"{}", b'\xef\xbb\xbf{"scripts": {}}', False),
        (None, b"{}", False),
        (None, b'{"scripts": {"prepare": "a"}}', True),
        (b'{"scripts": {"test": "a"}}', None, False),
        (b"{}", b"[]", True),
        (b"{}", b"{", True),
        (b"{", b"{", True),
        (b"{}", b'{"a":' * 100_000, True),
    ],
)
def test_only_scripts_make_a_changed_manifest_one_that_runs_by_itself(
    old: bytes | None, new: bytes | None, *, changed: bool
) -> None:
    assert have_scripts_changed(old, new) is changed


@pytest.mark.parametrize(
    ("path", "verdict"),
    [("package.json", True), ("web/Package.JSON", True), ("package.json.txt", False)],
)
def test_a_manifest_is_told_by_its_name(path: str, *, verdict: bool) -> None:
    assert is_manifest(path) is verdict
