"""Chains of models, as `models.yaml` states them for roles and kinds of task."""

from collections.abc import Collection, Mapping
from typing import Any

from patchyard.domain.analysis import KINDS
from patchyard.domain.errors import UnknownName
from patchyard.domain.faults import Fault, Place, check_keys, kind_of

Chain = tuple[str, ...]  # of PROVIDER:MODEL, the preferred first

KEYS = ("default_model", "provider", "fallback_model", "fallback_provider", "fallbacks")
TASK_TYPES = "task_types"  # of a role: other models for some kinds of task
FALLBACK_KEYS = ("model", "provider")
LONGEST = 8  # models of one chain
SUCH_AS = "such as {default_model: qwen3-coder, provider: ollama}"


def chains_of(
    stated: Any, place: Place, *, known: Collection[str], word: str, providers: Collection[str]
) -> Mapping[str, Chain]:
    """Return the chains of one section, by name. Raises Fault.

    `known` are the names there may be, `word` says what they name, `providers` are those that a
    chain may go to.
    """
    if stated is None:
        return {}
    if not isinstance(stated, Mapping):
        raise Fault(place, f"must be a mapping of {word}s, not {kind_of(stated)}")
    for name in stated:
        if name not in known:
            unknown = UnknownName.among(word, str(name), known)
            raise Fault.at((*place, str(name)), unknown)
    return {
        name: chain_of(body, (*place, name), providers, keys=(*KEYS, TASK_TYPES))
        for name, body in stated.items()
    }


def preferences_of(
    stated: Any, place: Place, chains: Mapping[str, Chain], *, providers: Collection[str]
) -> Mapping[str, Mapping[str, Chain]]:
    """Return what roles prefer for kinds of task: the chain that goes before the role's own.

    `stated` is what `chains_of` was given, `chains` what it returned. Raises Fault.
    """
    found = {}
    for name, chain in chains.items():
        at = (*place, name, TASK_TYPES)
        types = check_keys(stated[name].get(TASK_TYPES) or {}, at, tuple(map(str, KINDS)))
        preferred = {kind: chain_of(body, (*at, kind), providers) for kind, body in types.items()}
        found[name] = {
            kind: tuple(dict.fromkeys((*first, *chain)))[:LONGEST]
            for kind, first in preferred.items()
        }
    return found


def chain_of(
    body: Any, place: Place, providers: Collection[str], *, keys: Collection[str] = KEYS
) -> Chain:
    """Return the chain that an entry of `keys` states. Raises Fault with its place."""
    if isinstance(body, str):
        raise Fault(place, "must be a mapping, not text", hint=SUCH_AS)
    said = check_keys(body, place, keys)
    named = _Naming(providers)
    chain = {named(said, place, "default_model", "provider"): place}
    if "fallback_model" in said or "fallback_provider" in said:
        _add(chain, named(said, place, "fallback_model", "fallback_provider"), place)
    further = said.get("fallbacks") or []
    if not isinstance(further, list):
        raise Fault((*place, "fallbacks"), f"must be a list, not {kind_of(further)}")
    for number, item in enumerate(further):
        at = (*place, "fallbacks", number)
        _add(chain, named(check_keys(item, at, FALLBACK_KEYS), at, "model", "provider"), at)
    if len(chain) > LONGEST:
        raise Fault((*place, "fallbacks"), f"a chain has at most {LONGEST} models")
    return tuple(chain)


def _add(chain: dict[str, Place], name: str, place: Place) -> None:
    if name in chain:
        shown = " -> ".join([*chain, name])
        hint = "each model of a chain is asked once; take the second one out"
        raise Fault(place, f"a cycle of fallbacks: {shown}", hint=hint)
    chain[name] = place


class _Naming:
    """Reads PROVIDER:MODEL out of two keys."""

    def __init__(self, providers: Collection[str]) -> None:
        self._providers = providers

    def __call__(self, said: Mapping[str, Any], place: Place, model: str, provider: str) -> str:
        for key in (model, provider):
            if key not in said:
                other = provider if key == model else model
                raise Fault(place, f"{key!r} is missing", hint=f"it goes with {other!r}")
            if not isinstance(said[key], str) or not said[key].strip():
                raise Fault((*place, key), f"must be text, not {kind_of(said[key])}")
        if said[provider] not in self._providers:
            unknown = UnknownName.among("model provider", said[provider], self._providers)
            raise Fault.at((*place, provider), unknown)
        return f"{said[provider].strip()}:{said[model].strip()}"


__all__ = [
    "FALLBACK_KEYS",
    "KEYS",
    "LONGEST",
    "TASK_TYPES",
    "Chain",
    "chain_of",
    "chains_of",
    "preferences_of",
]
