"""Lines that say who runs the tests, or what an assertion is, are named above the verdict."""

import pytest

from patchyard.domain.silencing import silencing


@pytest.mark.parametrize(
    "line",
    [
        'TEST_RUNNER = "shop.runner.Quiet"',
        'settings.TEST_RUNNER = "shop.runner.Quiet"',
        "defmodule ExUnit do",
        "defmodule ExUnit.Assertions do",
        "macro_rules! assert_eq {",
        "macro_rules! assert { () => {} }",
        "macro_rules! debug_assert_ne {",
    ],
)
def test_a_runner_or_an_assertion_of_the_products_own_is_named(line: str) -> None:
    assert silencing({"a": {3: f"    {line}"}}) == ("a:3",)


@pytest.mark.parametrize(
    "line",
    [
        "LATEST_RUNNERS = 5",
        "defmodule Shop.ExUnitCase do",
        "use ExUnit.Case",
        "macro_rules! assert_priced {",
        "assert_eq!(price(2), 4);",
    ],
)
def test_a_line_that_only_uses_one_is_not_named(line: str) -> None:
    assert silencing({"a": {3: line}}) == ()
