"""What fits a budget, to the token and the nano-USD, whatever the numbers are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.booking import Account, Bound, accounts, day_of, require_room
from patchyard.domain.budget import (
    MEASURES,
    UNPRICED_TOKENS,
    Amount,
    Ask,
    Ceiling,
    PlanLimits,
    Spent,
    Tally,
    affordable,
    nano,
    shortages,
)
from patchyard.domain.ceilings import BUDGET_KEYS, bounds, budget_of
from patchyard.domain.errors import LimitReached
from patchyard.domain.faults import Fault

TOKENS = st.integers(0, 3_000_000)
RATES = st.none() | st.floats(0, 200, allow_nan=False)
ASKS = st.builds(
    Ask,
    input_tokens=st.integers(1, 3_000_000),  # a request takes some
    output_tokens=st.integers(1, 40_000),
    usd_per_million_input=RATES,
    usd_per_million_output=RATES,
)
AMOUNTS = st.builds(Amount, nano_usd=st.integers(0, 10**10), tokens=TOKENS)
CEILINGS = st.builds(
    Ceiling, nano_usd=st.none() | st.integers(0, 2 * 10**10), tokens=st.none() | TOKENS
)


@given(ask=ASKS, ceiling=CEILINGS, taken=AMOUNTS)
def test_the_longest_answer_fits_and_one_token_more_does_not(
    ask: Ask, ceiling: Ceiling, taken: Amount
) -> None:
    longest = affordable(ask, ceiling, taken)
    assert longest <= ask.output_tokens
    if longest >= 0:
        assert not list(shortages(ceiling, taken, ask.amount(longest)))
    if longest < ask.output_tokens:
        assert list(shortages(ceiling, taken, ask.amount(max(longest, -1) + 1)))


@given(ask=ASKS, used=st.integers(0, 40_000), less=TOKENS)
def test_what_comes_never_costs_more_than_what_was_reserved(ask: Ask, used: int, less: int) -> None:
    reserved = ask.amount(max(used, ask.output_tokens))
    input_tokens = max(0, ask.input_tokens - less)
    came = Ask(
        input_tokens=input_tokens,
        output_tokens=1,
        usd_per_million_input=ask.usd_per_million_input,
        usd_per_million_output=ask.usd_per_million_output,
    ).amount(used)
    assert all(getattr(came, name) <= getattr(reserved, name) for name in MEASURES)


def test_prices_are_exact_to_the_cheapest_token() -> None:
    assert nano(0.000000005) == 5
    assert nano(0.1) == 100_000_000
    assert nano(2.5e-10) == 1  # and never rounded to nothing


@given(first=AMOUNTS, second=AMOUNTS)
def test_amounts_add_up_and_take_away_again(first: Amount, second: Amount) -> None:
    assert first + second - second == first


def test_a_plan_without_a_price_is_bounded_by_tokens() -> None:
    limits = PlanLimits(usd=5.0, tokens=None, seconds=1.5)
    assert limits.ceiling(is_priced=True).tokens is None
    bounded = limits.ceiling(is_priced=False)
    assert (bounded.tokens, bounded.nano_usd, bounded.ms) == (UNPRICED_TOKENS, 5 * 10**9, 1500)
    assert Spent(usd=0.5, input_tokens=3, output_tokens=4).amount == Amount(
        nano_usd=500_000_000, tokens=7
    )


def test_something_counts_in_the_accounts_of_its_project_its_day_and_of_all() -> None:
    found = [account.prefix for account in accounts("shop", day_of(0.0))]
    assert found == ["total", "day", "project", "project_day"]
    assert [one.prefix for one in accounts("", "1970-01-01")] == ["total", "day"]
    assert {f"{one.prefix}_usd" for one in accounts("shop", day_of(0.0))} <= set(BUDGET_KEYS)


def test_the_first_place_that_says_a_limit_wins_and_the_rest_still_counts() -> None:
    layers = [{"project_usd": 3.0}, {"project_usd": 9.0, "day_tokens": 100.0, "day_time": 60.0}]
    found = {one.account: one.ceiling for one in bounds(layers, "shop", "2026-11-21")}
    assert found == {
        Account(day="2026-11-21"): Ceiling(tokens=100, ms=60_000),
        Account(project="shop"): Ceiling(nano_usd=3_000_000_000),
    }


def test_a_refusal_names_the_setting_the_scope_and_the_numbers() -> None:
    account = Account(project="shop", day="2026-11-21")
    bound = Bound(account=account, ceiling=Ceiling(nano_usd=2_000_000_000))
    tallies = {
        account: Tally(spent=Amount(nano_usd=1_500_000_000), reserved=Amount(nano_usd=400_000_000))
    }
    require_room([bound], tallies, Amount(nano_usd=100_000_000))
    with pytest.raises(LimitReached) as caught:
        require_room([bound], tallies, Amount(nano_usd=100_000_001))
    said = caught.value
    assert said.details["setting"] == "budget.project_day_usd"
    assert "project shop on 2026-11-21 (UTC)" in said.message
    assert "2 USD" in said.message
    assert "budget.project_day_usd" in said.hint
    assert said.exit_code == 5


@pytest.mark.parametrize(
    "stated",
    [
        {"day_usd": -1},
        {"day_usd": "much"},
        {"day_usd": float("nan")},
        {"day_tokens": 1.5},
        {"total_calls": True},
        {"week_usd": 1},
        {"day_time": "soon"},
        [1],
    ],
)
def test_a_budget_that_is_none_is_refused(stated: object) -> None:
    with pytest.raises(Fault):
        budget_of(stated, ("budget",))


def test_a_budget_is_read_in_usd_and_seconds() -> None:
    stated = {"day_usd": 2, "day_tokens": 10, "project_time": "2h"}
    assert budget_of(stated, ("budget",)) == {
        "day_usd": 2.0,
        "day_tokens": 10.0,
        "project_time": 7200.0,
    }
