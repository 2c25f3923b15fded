"""A sequence that grows without being copied, and never changes for who holds it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.growing import Growing


@given(st.lists(st.tuples(st.integers(0, 30), st.integers()), max_size=40))
def test_whatever_grows_out_of_it_each_one_stays_as_it_was(
    grown: list[tuple[int, int]],
) -> None:
    known = [(Growing[int](), list[int]())]
    for which, item in grown:
        made, items = known[which % len(known)]
        known.append((made.grown(item), [*items, item]))
    for made, items in known:
        assert list(made) == [made[at] for at in range(len(made))] == items
        assert made == Growing(items)
        assert list(made[1:3]) == items[1:3]
        assert [made[-1 - at] for at in range(len(made))] == items[::-1]


def test_it_ends_where_it_ends() -> None:
    first = Growing(["a"])
    longer = first.grown("b")
    assert (len(first), len(longer), hash(longer)) == (1, 2, hash(Growing(["a", "b"])))
    assert first != ["a"]
    assert repr(longer) == "Growing(['a', 'b'])"
    for at in (1, -2):
        with pytest.raises(IndexError):
            first[at]
