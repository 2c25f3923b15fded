"""Where links lead and which names they give, held against a real file system."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.plain_names import pattern_of
from patchyard.domain import links, name_patterns
from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.domain.errors import LimitReached
from patchyard.domain.links import Exit, LinkMap, TreeLinks, leaving
from patchyard.domain.name_patterns import NamePatterns, State, below_any, from_top
from patchyard.domain.protected import is_allowed
from patchyard.domain.tree_names import TreeNames

NAMES = ["a", "b", "c", ".h", "f"]
PLACES = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
TARGETS = st.lists(st.sampled_from([*NAMES, "..", "..", "."]), min_size=1, max_size=5)
DEPTH = 4  # folders that the walk over the real tree goes down


def laid(root: Path, files: list[str], made: dict[str, str]) -> dict[str, str]:
    """Make what of it fits on a disk, and return the links."""
    there = {}
    for path, target in [*((path, "") for path in files), *made.items()]:
        place = root / path
        folders = [root / folder for folder in Path(path).parents][:-1]
        if os.path.lexists(place) or any(f.is_symlink() or f.is_file() for f in folders):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if target:
            place.symlink_to(target)
            there[path] = target
        else:
            place.write_text("x")
    return there


def names_of(top: Path, folder: str = "", depth: int = DEPTH) -> Iterator[tuple[str, str]]:
    """Yield each name that leads to a file, with the file's own path."""
    for entry in sorted(os.scandir(top / folder), key=lambda each: each.name):
        name = f"{folder}/{entry.name}".lstrip("/")
        real = os.path.realpath(entry.path)
        if not real.startswith(f"{top}/"):
            continue
        if Path(entry.path).is_file():
            yield name, os.path.relpath(real, top)
        elif Path(entry.path).is_dir() and depth:
            yield from names_of(top, name, depth - 1)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(PLACES, max_size=5), st.dictionaries(PLACES, TARGETS.map("/".join), max_size=5))
def test_links_lead_where_the_file_system_leads(files: list[str], made: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(os.path.realpath(folder), "above", "top")
        top.mkdir(parents=True)
        there = laid(top, files, made)
        map_ = LinkMap(there.items(), top=str(top), mixed=())
        for path in there:
            try:
                real = os.path.realpath(top / path, strict=True)
            except OSError:
                continue  # leads nowhere, or round in a loop
            way = map_.ways[path]
            if real == str(top) or real.startswith(f"{top}/"):
                assert os.path.relpath(real, top).replace(".", "", real == str(top)) in way.ends
            else:
                assert way.exits == {Exit.OUTSIDE}

        found = TreeNames(
            [Change(path=path, status=ChangeStatus.ADDED, mode="100644") for path in files],
            TreeLinks(top=str(top), after=there),
        ).matching(NamePatterns([below_any(".h/*"), below_any("a/b/f")]))
        for name, path in names_of(top):
            row = f"/{name}/"
            if "/.h/" in row or "/a/b/f/" in row:
                assert path in found or path not in files, (name, path)


def test_a_link_may_lead_into_the_checkout_by_its_absolute_path_and_nowhere_else() -> None:
    after = {
        "in": "/home/ann/shop/src",
        "dots": "/home//ann/./shop/src",
        "beside": "/home/ann/shop2",
        "up": "/home/ann/shop/../x",
        "round": "/home/ann/x/../shop",
    }
    found = leaving(TreeLinks(top="/home/ann/shop", after=after), after)
    assert set(found) == {"beside", "up", "round"}


def test_a_link_of_the_base_that_always_left_the_tree_is_not_told_again() -> None:
    before = {"out": "../x", "mended": "../y"}
    after = {"out": "../x", "mended": "y"}
    assert leaving(TreeLinks(before=before, after=after), ["mended"]) == {}
    assert set(leaving(TreeLinks(before=before, after=before | {"n": "out/z"}), ["n"])) == {"n"}


def test_a_folder_in_whose_place_the_result_has_a_link_counts_as_both() -> None:
    after = {"sub": "deep/er", "link": "sub/../.."}
    assert leaving(TreeLinks(after=after), after) == {}
    assert set(leaving(TreeLinks(after=after, mixed=frozenset({"sub"})), after)) == {"link"}


def test_the_case_of_a_name_hides_no_way_out() -> None:
    after = {"A": "deep/er", "b": "a/../.."}
    assert set(leaving(TreeLinks(after=after), after)) == {"b"}, "here a is a folder beside A"
    after = {"A": "../..", "b": "a/x"}
    assert set(leaving(TreeLinks(after=after), after)) == {"A", "b"}, "there a is A"


def test_links_that_lead_through_one_another_endlessly_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(links, "MAX_STEPS", 1000)
    chain = {f"l{number:03}": f"l{number + 1:03}" for number in range(100)}
    with pytest.raises(LimitReached, match="too often"):
        LinkMap(chain.items(), top="")


class Counted(NamePatterns):
    """Patterns that count how often they are asked."""

    steps = 0

    def step(self, state: State, name: str) -> State:
        self.steps += 1
        return super().step(state, name)


def test_many_paths_and_links_are_matched_without_looking_at_pairs_of_them() -> None:
    count = 5_000
    after = {f"d{number}/self": "." for number in range(count)} | {".vscode": "d7/self/self"}
    changes = [Change(path=f"d{n}/f", status=ChangeStatus.ADDED) for n in range(count)]
    names = TreeNames(changes, TreeLinks(after=after))
    patterns = Counted([below_any(".vscode/*")])
    assert list(names.matching(patterns)) == ["d7/f"]
    assert patterns.steps < 10 * count


def test_many_links_to_one_folder_do_not_have_it_walked_for_each_of_them() -> None:
    count, links_of_top = 1_000, [f".n{number}" for number in range(100)]
    after = dict.fromkeys(links_of_top, ".")
    changes = [Change(path=f"f{n}", status=ChangeStatus.ADDED) for n in range(count)]
    patterns = Counted([below_any(f"{name}/*") for name in links_of_top])
    names = TreeNames(changes, TreeLinks(after=after))
    assert len(names.matching(patterns)) == count
    assert patterns.steps < 10 * (count + 2 * len(after))


def test_one_link_whose_target_can_be_read_in_very_many_ways_is_refused() -> None:
    both = {f"d/p{number}": "q" for number in range(16)}
    target = "/".join(["d", *(f"p{number}/.." for number in range(16))])
    with pytest.raises(LimitReached, match="too often"):
        LinkMap({**both, "z": target}.items(), top="")


def test_names_that_change_nothing_share_one_state() -> None:
    """A state may have hundreds of patterns, and a result hundreds of thousands of files."""
    patterns = NamePatterns([below_any(".vscode/*")])
    state = patterns.step(patterns.start, ".vscode")
    assert patterns.step(state, "a") is patterns.step(state, "b")


def test_patterns_remember_a_bounded_number_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_patterns, "MOST_KNOWN", 10)
    patterns = NamePatterns([below_any(".vscode/*")])
    for number in range(100):
        state = patterns.step(patterns.step(patterns.start, f"f{number}"), ".vscode")
        assert patterns.match(patterns.step(state, "f")) == ".vscode/*"
    assert patterns.remembered <= 10


@given(
    st.lists(st.sampled_from(["db", "a", "*", "*.sql", "x*y", "**", "?", "v.sql"]), min_size=1),
    st.lists(st.sampled_from(["db", "a", "v.sql", "xy", "x1", "zy"]), min_size=1, max_size=5),
)
def test_a_glob_of_a_user_fits_all_that_it_fitted_as_a_text(
    glob_names: list[str], names: list[str]
) -> None:
    glob, path = "/".join(glob_names[:4]), "/".join(names)
    if is_allowed(path, (glob,)) and glob.count("*") <= 6:
        assert pattern_of(NamePatterns(list(from_top(glob))), path)


def test_a_glob_of_a_user_holds_for_a_link_in_the_place_of_its_folder() -> None:
    patterns = NamePatterns([*from_top("db/migrations/*"), *from_top("*.sql")])
    assert pattern_of(patterns, "db/migrations") == "db/migrations/*"
    assert pattern_of(patterns, "DB/Migrations/1.py") == "db/migrations/*"
    assert pattern_of(patterns, "a/b/c.sql") == "*.sql"
    assert pattern_of(patterns, "x/db/migrations/1.py") == ""
