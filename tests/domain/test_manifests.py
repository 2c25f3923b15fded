"""A manifest runs by itself where parts of it changed that do; any other change is free."""

import json

import pytest

from patchyard.domain.manifest_parts import DEPENDENCIES, PARTS
from patchyard.domain.manifests import changed_parts
from patchyard.domain.protected_entry import ProtectedEntry


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
def test_only_parts_that_run_make_a_changed_manifest_one_that_runs_by_itself(
    old: bytes | None, new: bytes | None, *, changed: bool
) -> None:
    assert bool(changed_parts("package.json", old, new)) is changed


@pytest.mark.parametrize("depth", [400, 600, 900])
@pytest.mark.parametrize("key", ["overrides", "scripts"])
def test_tables_in_tables_are_followed_or_are_all_of_it(key: str, depth: int) -> None:
    tables = '{"a":' * depth + '"../x"' + "}" * depth
    new = f'{{"{key}": {tables}}}'.encode()
    assert changed_parts("package.json", b"{}", new) in {(key,), ("all of it",)}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("husky", {"hooks": {"pre-commit": "x"}}),
        ("simple-git-hooks", {"pre-commit": "x"}),
        ("bin", "./x.js"),
        ("bin", {"node": "./x.js"}),
        ("directories", {"bin": "tools"}),
        ("packageManager", "yarn@https://example.org/yarn.js"),
        ("dependencies", {"x": "file:../x"}),
        ("dependencies", {"x": "../x"}),
        ("devDependencies", {"x": "link:./x"}),
        ("optionalDependencies", {"x": "git+ssh://git@example.org/x.git"}),
        ("dependencies", {"x": "someone/x#main"}),
        ("dependencies", {"x": "https://example.org/x.tgz"}),
        ("overrides", {"a": {"b": "file:x.tgz"}}),
        ("resolutions", {"a/**/b": "portal:./b"}),
        ("pnpm", {"onlyBuiltDependencies": ["x"]}),
        ("trustedDependencies", ["x"]),
    ],
)
def test_each_part_that_runs_by_itself_is_named(key: str, value: object) -> None:
    new = json.dumps({"name": "a", key: value}).encode()
    parts = changed_parts("package.json", b'{"name": "b"}', new)
    assert parts == ("directories.bin" if key == "directories" else key,)
    assert changed_parts("package.json", new, new) == ()


def test_a_version_of_a_package_is_no_part_that_runs() -> None:
    versions = {"a": "^1.2.3", "b": "npm:c@1", "c": "workspace:*", "d": ">=1 <2 || 3.x", "e": ""}
    versions |= {"f": "catalog:", "g": "npm:@scope/g@1", "h": "latest", "i": "*"}
    new = json.dumps({"dependencies": versions, "peerDependencies": {"x": "*"}}).encode()
    assert changed_parts("package.json", b"{}", new) == ()


def test_scripts_of_composer_run_too() -> None:
    new = b'{"scripts": {"post-install-cmd": "x"}, "require": {"a/b": "1"}}'
    assert changed_parts("composer.json", b"{}", new) == ("scripts",)


@pytest.mark.parametrize("name", PARTS)
def test_each_part_has_a_tool_and_a_source_and_is_named_where_it_changes(name: str) -> None:
    for part in PARTS[name]:
        assert part.tool
        assert part.does
        assert part.source.startswith("https://")
        for key in part.patterns:
            table, _, within = key.rpartition(".")
            new = {table: {within: "x"}} if table else {within: "x"}
            assert changed_parts(name, b"{}", json.dumps(new).encode()) == (key,)


@pytest.mark.parametrize("part", DEPENDENCIES, ids=lambda part: part.patterns[0])
def test_each_table_of_dependencies_has_a_source_and_counts_where_it_names_no_version(
    part: ProtectedEntry,
) -> None:
    assert part.source.startswith("https://")
    for key in part.patterns:
        for value, counts in (("1.2", False), ("file:../x", True)):
            new = json.dumps({key: {"a": value}}).encode()
            assert changed_parts("package.json", b"{}", new) == ((key,) if counts else ())
