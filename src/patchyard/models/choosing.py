"""Which model is taken: the order of choice, and the error with its cures when there is none."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchyard.clients.waits import Waits
from patchyard.domain.budget import UNPRICED_TOKENS, PlanLimits
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.failover import has_no_list
from patchyard.domain.messages import ModelFacts
from patchyard.domain.model_names import split_name
from patchyard.domain.task_words import kind_of
from patchyard.models.providers import Catalogue

if TYPE_CHECKING:
    from patchyard.models.ollama import OllamaModel

NAMED = "named"
DEVELOPER = "developer"  # whose models others have, where there are no others
OLLAMA_PREFIX = "ollama:"
LOOKED_AT = 12  # pulled models that are looked at for what they can do
WRITING = frozenset({"completion", "tools"})  # what says that a model can be asked at all
# Families that write code with tools, best first; a pulled model outside them comes after.
PREFERRED = ("qwen3-coder", "gpt-oss", "devstral", "qwen3", "qwen2.5-coder", "llama3.1")
QUICK = Waits(connect_s=1.0, first_byte_s=3.0, idle_s=3.0, whole_s=5.0)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The model that is taken, those after it, and why; said before the first call."""

    name: str  # PROVIDER:MODEL
    reason: str
    fallbacks: tuple[str, ...] = ()  # asked in this order where it fails

    @property
    def names(self) -> tuple[str, ...]:
        """The whole chain."""
        return (self.name, *self.fallbacks)

    @property
    def shown(self) -> str:
        """The chain and why it was taken, in a line."""
        return f"{', then '.join(self.names)} ({self.reason})"


async def choose(
    catalogue: Catalogue, *, named: str = "", role: str = "", task: str = "", kind: str = ""
) -> Choice:
    """Return the model by the order: named, role, configured, shipped, Ollama, vendor key.

    What a role prefers for the `kind` of task goes before the role's chain; where no one is known
    that is, it is guessed by the words of `task`.

    A chain that is shipped for the role counts as far as its models are there.
    Raises ModelUnavailable with three cures when there is none.
    """
    if named:
        return Choice(name=named, reason=NAMED)
    await catalogue.read_keys()
    kind = kind or (str(kind_of(task)[0]) if task else "")
    said = f"role {role}{' of this repository' if role in catalogue.in_repository else ''}"
    if kind in catalogue.preferred.get(role, {}):
        return _chain(catalogue.preferred[role][kind], f"{said}, for {kind}")
    if role in catalogue.roles:
        return _chain(catalogue.roles[role], said)
    configured = [
        f"{provider}:{settings.default_model}"
        for provider, settings in sorted(catalogue.configured.items())
        if settings.default_model and provider not in catalogue.of_repository
    ]
    if configured:
        return Choice(name=await _well(catalogue, configured), reason="configured")
    pulled = await _pulled(catalogue, catalogue.shipped_roles.get(role, ()))
    return await _found(catalogue, role, pulled)


async def _well(catalogue: Catalogue, names: Sequence[str]) -> str:
    """Return the first whose provider answers now; the first of all where none does.

    They are asked together, for their lists of models. Where there is but one nobody is.
    """
    if len(names) == 1:
        return names[0]
    quick = replace(catalogue, waits=QUICK, on_wait=None)

    async def is_well(name: str) -> bool:
        try:
            async with asyncio.timeout(QUICK.whole_s):
                await quick.offered(split_name(name)[0])
        except (ModelFailed, ModelUnavailable) as error:
            return has_no_list(error)
        except TimeoutError:
            return False
        return True

    well = await asyncio.gather(*(is_well(name) for name in names))
    return next((name for name, is_there in zip(names, well, strict=True) if is_there), names[0])


async def _found(catalogue: Catalogue, role: str, pulled: "_Pulled") -> Choice:
    """Return the model where nobody chose one: shipped, of Ollama, of a vendor."""
    there = [each for each in catalogue.shipped_roles.get(role, ()) if _is_there(each, catalogue)]
    there = [each for each in there if each in pulled.wanted or not each.startswith(OLLAMA_PREFIX)]
    if there:
        return _chain(tuple(there), f"shipped for role {role}")
    if pulled.calling:
        return Choice(name=pulled.calling, reason="Ollama runs here and has it")
    keyed = {
        f"{provider}:{settings.default_model}": settings.api_key_env
        for provider, settings in catalogue.providers.items()
        if settings.default_model and catalogue.key(settings).known
    }
    if keyed:
        name = await _well(catalogue, tuple(keyed))
        return Choice(name=name, reason=f"{keyed[name]} is set")
    if pulled.writing:
        return Choice(name=pulled.writing, reason="Ollama runs here and has no other")
    if DEVELOPER in catalogue.roles:
        own = f": {role} has none of its own" if role else ""
        return _chain(catalogue.roles[DEVELOPER], f"role {DEVELOPER}{own}")
    raise no_model()


def _chain(names: Sequence[str], reason: str) -> Choice:
    return Choice(name=names[0], fallbacks=tuple(names[1:]), reason=reason)


def _is_there(name: str, catalogue: Catalogue) -> bool:
    """Whether nothing is known to be missing for a model, without asking anybody."""
    key = catalogue.key(catalogue.provider(split_name(name)[0]))
    return not key.is_named or bool(key.known)


def terms(choice: Choice, facts: ModelFacts, limits: PlanLimits) -> str:
    """Return what is said before the first call: a model nobody named, and what bounds its cost.

    Empty where the user knows it: a model that was named and whose price is known.
    """
    price = facts.usd_per_million_output
    if price is None:
        bound = limits.tokens or UNPRICED_TOKENS
        return f"{choice.name} ({choice.reason}); its price is not known: at most {bound:,} tokens"
    if choice.reason == NAMED:
        return ""
    bounded = f"; at most {limits.usd:g} USD" if price and limits.usd is not None else ""
    return f"{choice.name} ({choice.reason}){bounded}"


def no_model() -> ModelUnavailable:
    """Return the error for a machine without any model; it names three cures."""
    return ModelUnavailable(
        "no model: none is named or configured, no Ollama with a model answers, and no key is "
        "set whose provider has a `default_model`",
        hint=(
            "(1) `ollama serve` and `ollama pull qwen3-coder`; (2) `export OPENAI_API_KEY=...`, "
            "with OPENAI_BASE_URL for another endpoint; (3) name one: `--model PROVIDER:MODEL`, "
            "such as `--model anthropic:NAME` with a key; models.yaml has more providers"
        ),
        details={"kind": "no_model"},
    )


@dataclass(frozen=True, kw_only=True)
class _Pulled:
    """What Ollama has here."""

    wanted: tuple[str, ...] = ()  # of those that were asked for
    calling: str = ""  # the best that can call tools
    writing: str = ""  # the best that can only write


async def _pulled(catalogue: Catalogue, wanted: Sequence[str]) -> _Pulled:
    """Return which of the `wanted` models of Ollama can be asked here, and the best of all."""
    model = catalogue.ollama(waits=QUICK)
    try:
        return await _looked_at(model, wanted)
    except (ModelUnavailable, ModelFailed):
        return _Pulled()
    finally:
        await model.close()


async def _looked_at(model: "OllamaModel", wanted: Sequence[str]) -> _Pulled:
    names = [f"{OLLAMA_PREFIX}{name}" for name in _ordered(await model.offered())]
    there = [name for name in wanted if name in names]
    able = [name for name in there if await _abilities(model, name) & WRITING]
    if able:
        return _Pulled(wanted=tuple(able))
    writing = ""
    for name in names[:LOOKED_AT]:
        abilities = await _abilities(model, name)
        if "tools" in abilities:
            return _Pulled(calling=name)
        writing = writing or (name if abilities & WRITING else "")
    return _Pulled(writing=writing)


async def _abilities(model: "OllamaModel", name: str) -> frozenset[str]:
    return await model.capabilities(name.removeprefix(OLLAMA_PREFIX))


def _ordered(names: Sequence[str]) -> list[str]:
    def rank(name: str) -> tuple[int, str]:
        places = [i for i, family in enumerate(PREFERRED) if name.startswith(family)]
        return min(places, default=len(PREFERRED)), name

    return sorted(names, key=rank)


__all__ = ["PREFERRED", "QUICK", "Choice", "choose", "no_model", "terms"]
