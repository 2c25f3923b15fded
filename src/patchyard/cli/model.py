"""`agents model list|check`: which models can be asked."""

import os
from collections.abc import Mapping
from dataclasses import replace
from textwrap import fill

import click

from patchyard.casting import model_catalogue
from patchyard.cli.cataloguing import WIDTH
from patchyard.cli.main import Group
from patchyard.cli.outcome import Outcome, carry_out, format_option, paint, visible
from patchyard.cli.seeing import model_and_role_here, models_here
from patchyard.clients.http_trouble import shown
from patchyard.clients.waits import Waits
from patchyard.domain.codec import to_json
from patchyard.domain.errors import ModelUnavailable, PatchyardError
from patchyard.models.choosing import choose
from patchyard.models.keys import Key
from patchyard.models.prices import PriceTable
from patchyard.models.providers import Catalogue
from patchyard.models.troubles import AGAIN

LOADING = Waits(connect_s=3.0, first_byte_s=300.0, idle_s=10.0, whole_s=300.0)


@click.group(cls=Group, epilog="Example: agents model check ollama:qwen3-coder")
def model() -> None:
    """Say which models can be asked."""


@model.command(
    "list", short_help="List the providers there are.", epilog="Example: agents model list"
)
@format_option
def list_providers(output_format: str) -> None:
    """List the providers, where they are, which variable holds their key, and the known prices.

    A model without a known price is bounded by tokens.
    """

    async def work() -> Outcome:
        catalogue = open_catalogue(await models_here())
        await catalogue.read_keys()
        rows = []
        for name, settings in catalogue.providers.items():
            key = catalogue.key(settings)
            rows.append(
                {
                    "provider": name,
                    "kind": settings.kind,
                    "base_url": shown(settings.base_url),
                    "api_key_env": settings.api_key_env,
                    "key": key.place if key.is_named else "",
                    "has_key": bool(key.known),
                    "of_repository": name in catalogue.of_repository,
                    "key_problem": _problem(key),
                }
            )
        lines = [line for row in rows for line in _provider_lines(row)]
        data = {"providers": rows, "prices": to_json(catalogue.prices)}
        return Outcome(data=data, text="\n".join([*lines, price_words(catalogue.prices)]))

    carry_out("model list", output_format, work)


def price_words(table: PriceTable) -> str:
    """Return the table's date, and for which models of each provider it has a price."""
    known = [
        fill(
            visible(", ".join(models)),
            width=WIDTH,
            initial_indent=f"  {visible(provider):10} ",
            subsequent_indent=" " * 13,
            break_on_hyphens=False,
            break_long_words=False,
        )
        for provider, models in table.prices.items()
        if models
    ]
    return "\n".join([f"prices as of {table.as_of}, for", *known])


def _provider_lines(row: Mapping[str, object]) -> list[str]:
    """Return a provider's line; what holds its key stands in a line of its own."""
    ending = " (of this repository)" if row["of_repository"] else ""
    line = f"{row['provider']:12} {row['kind']:18} {visible(str(row['base_url']))}{ending}"
    place = visible(str(row["key"]).removeprefix("the variable "))
    said = paint("is set", "green") if row["has_key"] else paint("is not set", "yellow")
    if row["key_problem"]:
        said = f"{paint('cannot be used', 'yellow')}: {visible(str(row['key_problem']))}"
    return [line, f"{' ' * 31} {place} {said}"] if place else [line]


def _problem(key: Key) -> str:
    """Return why a key that is there cannot be used; empty where none is there, or it can."""
    try:
        key.headers()
    except ModelUnavailable as error:
        return f"{error.message}; {error.hint}"
    return ""


@model.command(
    short_help="Look a model up at its provider.",
    epilog="Example: agents model check openai:gpt-4o",
)
@click.argument("name", required=False, default="")
@format_option
def check(name: str, output_format: str) -> None:
    """Look model NAME (PROVIDER:MODEL) up; without NAME the one that `run` would take here."""

    async def work() -> Outcome:
        catalogue = open_catalogue(await models_here())
        catalogue = replace(catalogue, waits=LOADING, on_wait=_say_waiting)
        named, role = (name, "") if name else await model_and_role_here()
        choice = await choose(catalogue, named=named, role=role)
        try:
            facts = await catalogue.look_up(choice.name)
        except PatchyardError as error:
            error.hint = without_plan(error.hint)
            return Outcome(data={"model": choice.name, "reason": choice.reason}, error=error)
        data = {"model": choice.name, "reason": choice.reason, "facts": to_json(facts)}
        window = f"{facts.context_tokens:,} tokens" if facts.context_tokens else "unknown window"
        text = f"{choice.name}: {paint('works', 'green')} ({choice.reason}; {window})"
        return Outcome(data=data, text=text)

    carry_out("model check", output_format, work)


def without_plan(hint: str) -> str:
    """Return the cure of a model's failure where there is no plan to carry on."""
    return hint.removesuffix(AGAIN).removesuffix("; ")


def _say_waiting(words: str) -> None:
    click.echo(f"waits for {visible(words)}", err=True)


def open_catalogue(repository: str = "") -> Catalogue:
    """Return the providers of this environment, with short waits; see `model_catalogue`."""
    waits = Waits(connect_s=3.0, first_byte_s=10.0, idle_s=10.0, whole_s=30.0)
    return replace(model_catalogue(os.environ, repository), waits=waits)


__all__ = ["model", "open_catalogue", "price_words", "without_plan"]
