"""Which model is taken: the order of choice, and the error with its cures when there is none."""

from collections.abc import Sequence
from dataclasses import dataclass

from patchyard.clients.waits import Waits
from patchyard.domain.budget import UNPRICED_TOKENS, PlanLimits
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.messages import ModelFacts
from patchyard.models.providers import Catalogue

NAMED = "named"
LOOKED_AT = 12  # pulled models that are looked at for the ability to call tools
# Families that write code with tools, best first; a pulled model outside them comes after.
PREFERRED = ("qwen3-coder", "gpt-oss", "devstral", "qwen3", "qwen2.5-coder", "llama3.1")
QUICK = Waits(connect_s=1.0, first_byte_s=3.0, idle_s=3.0, whole_s=5.0)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The model that is taken, and why; said before the first call."""

    name: str  # PROVIDER:MODEL
    reason: str


async def choose(catalogue: Catalogue, *, named: str = "", role: str = "") -> Choice:
    """Return the model by the order: named, role, configured, reachable Ollama, vendor key.

    Raises ModelUnavailable with three cures when there is none.
    """
    if named:
        return Choice(name=named, reason=NAMED)
    if role:
        return Choice(name=role, reason="of the role")
    for provider, settings in sorted(catalogue.configured.items()):
        if settings.default_model:
            return Choice(name=f"{provider}:{settings.default_model}", reason="configured")
    pulled = await _pulled(catalogue)
    if pulled:
        return Choice(name=f"ollama:{pulled}", reason="Ollama runs here and has it")
    for provider, settings in catalogue.providers.items():
        key = settings.api_key_env
        if settings.default_model and key and catalogue.environ.get(key):
            return Choice(name=f"{provider}:{settings.default_model}", reason=f"{key} is set")
    raise no_model()


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
        "no model: none is named or configured, no Ollama answers, and no key is set",
        hint=(
            "(1) `ollama serve` and `ollama pull qwen3-coder`; (2) `export OPENAI_API_KEY=...`, "
            "with OPENAI_BASE_URL for another endpoint; (3) name one: `--model PROVIDER:MODEL`, "
            "with a provider in models.yaml"
        ),
        details={"kind": "no_model"},
    )


async def _pulled(catalogue: Catalogue) -> str:
    model = catalogue.ollama(waits=QUICK)
    try:
        names = await model.offered()
        for name in _ordered(names)[:LOOKED_AT]:
            if await model.has_tools(name):
                return name
    except (ModelUnavailable, ModelFailed):
        return ""
    finally:
        await model.close()
    return ""


def _ordered(names: Sequence[str]) -> list[str]:
    def rank(name: str) -> tuple[int, str]:
        places = [i for i, family in enumerate(PREFERRED) if name.startswith(family)]
        return min(places, default=len(PREFERRED)), name

    return sorted(names, key=rank)


__all__ = ["PREFERRED", "QUICK", "Choice", "choose", "no_model", "terms"]
