"""What tokens cost, by a table that is data with a date."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from patchyard.domain.errors import UsageError
from patchyard.domain.messages import Usage

_DATED = re.compile(r"-(?:20\d\d-?\d\d-?\d\d|latest)$")


@dataclass(frozen=True, kw_only=True)
class Price:
    """USD for a million tokens."""

    input: float
    output: float
    cached: float | None = None  # input read from the provider's cache; None: as other input
    written: float | None = None  # input written to it; None: likewise

    @property
    def most_input(self) -> float:
        """What a token of input costs at most, whatever the cache does."""
        return max(self.input, self.cached or 0.0, self.written or 0.0)

    def cost(self, usage: Usage) -> float:
        """Return what a request cost, in USD."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        written = min(usage.written_tokens, usage.input_tokens - cached)
        fresh = usage.input_tokens - cached - written
        asked = (
            fresh * self.input
            + cached * (self.input if self.cached is None else self.cached)
            + written * (self.input if self.written is None else self.written)
        )
        return (asked + usage.output_tokens * self.output) / 1e6


@dataclass(frozen=True, kw_only=True)
class PriceTable:
    """Prices by provider and model."""

    as_of: str  # date of the table
    prices: Mapping[str, Mapping[str, Price]]

    def price(self, provider: str, model: str) -> Price | None:
        """Return the price, None when it is not known. A dated name counts as its plain one."""
        listed = self.prices.get(provider, {})
        return listed.get(model) or listed.get(_DATED.sub("", model)) or listed.get("*")


def shipped_prices() -> PriceTable:
    """Return the table that comes with the package."""
    text = files("patchyard").joinpath("configs", "prices.toml").read_text(encoding="utf-8")
    return read_prices(text, source="configs/prices.toml")


def read_prices(text: str, *, source: str) -> PriceTable:
    """Read a table from TOML. Raises UsageError naming `source` and what does not fit."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{source}: {error}") from error
    as_of = data.pop("as_of", None)
    if not isinstance(as_of, str):
        raise UsageError(f"{source}: `as_of` must be the date of the prices")
    prices: dict[str, dict[str, Price]] = {}
    for provider, models in data.items():
        if not isinstance(models, dict):
            raise UsageError(f"{source}: {provider!r} must be a table of models")
        prices[provider] = {
            model: _price(f"{source}: {provider}.{model}", row) for model, row in models.items()
        }
    return PriceTable(as_of=as_of, prices=prices)


def _price(where: str, row: object) -> Price:
    known = {"input", "output", "cached", "written"}
    if not isinstance(row, dict) or not {"input", "output"} <= set(row) <= known:
        raise UsageError(f"{where}: a price has `input`, `output` and may have `cached`, `written`")
    numbers = [value for value in row.values() if isinstance(value, int | float)]
    if len(numbers) != len(row) or any(number < 0 for number in numbers):
        raise UsageError(f"{where}: prices are numbers, 0 or more")
    return Price(**{name: float(value) for name, value in row.items()})


__all__ = ["Price", "PriceTable", "read_prices", "shipped_prices"]
