"""Any JSON at all, with the words in it that its reader looks for."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

__all__ = ["wild_json"]


def wild_json(words: Sequence[str], *further: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values with `words` for keys; `further` are scalars beside null, numbers and texts."""
    scalars = st.one_of(st.none(), st.integers(), st.text(max_size=5), *further)
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(words), inner, max_size=4),
        ),
        max_leaves=12,
    )
