"""The rows of `doctor` on providers and the model that `run` would take.

Lists of models are asked for, which cost nothing; no model is asked.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from patchyard.cli.findings import Finding, bad, good, misread
from patchyard.cli.model import open_catalogue, without_plan
from patchyard.cli.outcome import counted
from patchyard.cli.seeing import model_and_role_here, models_here
from patchyard.domain.errors import ModelFailed, ModelUnavailable, PatchyardError
from patchyard.domain.failover import has_no_list
from patchyard.domain.model_names import split_name
from patchyard.models.choosing import QUICK, Choice, choose
from patchyard.models.providers import FILES, OLLAMA, Catalogue

NOT_ASKED = "the model itself was not asked"
LATEST = ":latest"  # what Ollama adds to a name without a tag


@dataclass(frozen=True, kw_only=True)
class _Look:
    """What a provider answered."""

    row: Finding
    listed: tuple[str, ...] = ()  # names of models; empty: it has no list, or did not answer


async def model_rows(*, has_settings: bool) -> list[Finding]:
    """Return a row for each provider, the model and the prices.

    `has_settings`: whether the settings can be read, which choose the model.
    """
    try:
        catalogue = replace(open_catalogue(await models_here()), waits=QUICK)
    except PatchyardError as error:
        return [misread("model", error)]
    names = [*catalogue.providers]
    answers = await asyncio.gather(*(_look(catalogue, name) for name in names))
    looks = dict(zip(names, answers, strict=True))
    model = _unread() if not has_settings else await _model(catalogue, looks)
    prices = good("prices", f"as of {catalogue.prices.as_of}")
    return [*(look.row for look in answers), model, prices]


def _unread() -> Finding:
    said = "not looked for, as the settings cannot be read"
    return Finding(name="model", is_good=False, is_needed=False, said=said)


async def _look(catalogue: Catalogue, name: str) -> _Look:
    row = f"provider {name}"
    try:
        models = await catalogue.offered(name)
    except (ModelFailed, ModelUnavailable) as error:
        if has_no_list(error):
            return _Look(row=good(row, "answers, and has no list of its models"))
        found = bad(row, error)
        is_asked = error.details.get("kind") != "no_key"
        said = found.said if is_asked else f"{found.said}; it was not asked"
        return _Look(row=replace(found, said=said, cure=without_plan(found.cure)))
    except PatchyardError as error:
        return _Look(row=bad(row, error))
    return _Look(row=good(row, f"answers, {counted(len(models), 'model')} listed"), listed=models)


async def _model(catalogue: Catalogue, looks: Mapping[str, _Look]) -> Finding:
    """Return the row of the model that `run` would take, with what is known of its provider."""
    try:
        named, role = await model_and_role_here()
        choice = await choose(catalogue, named=named, role=role)
        for name in choice.names:
            catalogue.require(name)
    except PatchyardError as error:
        return misread("model", error)
    rows = [_known(catalogue, name, looks) for name in choice.names]
    return Finding(
        name="model",
        is_good=any(row.is_good for row in rows),  # those after the first are asked where it fails
        is_needed=False,
        said=_said(choice, rows),
        cure="; ".join(dict.fromkeys(row.cure for row in rows if row.cure)),
    )


def _said(choice: Choice, rows: Sequence[Finding]) -> str:
    if len(rows) == 1:
        return f"{choice.shown}: {rows[0].said}"
    each = (f"{name}: {row.said}" for name, row in zip(choice.names, rows, strict=True))
    return f"{choice.shown}; {'; '.join(each)}"


def _known(catalogue: Catalogue, name: str, looks: Mapping[str, _Look]) -> Finding:
    """Return what is known of a model without asking it."""
    provider, model = split_name(name)
    if provider in FILES:
        return good(name, "a file that can be read")
    look = looks[provider]
    if not look.row.is_good:
        return look.row
    if not look.listed:
        return good(name, f"{provider} answers; {NOT_ASKED}")
    is_ollama = catalogue.provider(provider).kind == OLLAMA
    if model in look.listed or (is_ollama and f"{model}{LATEST}" in look.listed):
        return good(name, f"{provider} lists it; {NOT_ASKED}")
    return Finding(
        name=name,
        is_good=False,
        is_needed=False,
        said=f"{provider} answers, and its list lacks the model",
        cure=f"`agents model check {name}` says which it has",
    )


__all__ = ["model_rows"]
