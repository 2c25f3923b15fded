"""What is known of one provider before it is asked, as built in or as a `models.yaml` states it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchyard.domain.throttle import Rates

OLLAMA = "ollama"
OPENAI_COMPATIBLE = "openai-compatible"
OPENAI_RESPONSES = "openai-responses"
ANTHROPIC = "anthropic"
KINDS = (ANTHROPIC, OLLAMA, OPENAI_COMPATIBLE, OPENAI_RESPONSES)
PROGRAM = "program"  # an object that the program at hand has registered; no file can say it


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """What a configuration file states of one model of a provider."""

    tools: bool | None = None  # None: as its provider says
    images: bool | None = None  # likewise


@dataclass(frozen=True, kw_only=True)
class ProviderSettings:
    """One provider, as built in or as a configuration file states it."""

    kind: str  # one of KINDS, PROGRAM, or MODULE:NAME of an installed package
    base_url: str = ""  # before /chat/completions, /responses, /v1/messages or /api
    api_key_env: str = ""  # name of the variable that holds the key
    api_key_file: str = ""  # or the file, absolute
    api_key_keyring: str = ""  # or the keyring's entry, SERVICE/USER; all empty: no key
    rates: Rates = field(default_factory=Rates)
    default_model: str = ""  # taken when only the provider is known
    context_tokens: int | None = None  # the window; ollama: the one asked for
    is_streaming: bool = True
    asks_usage: bool = True
    tools: bool = True  # False: its models cannot call tools themselves
    images: bool | None = None  # whether its models can see; None: as its kind says
    models: Mapping[str, ModelSettings] = field(default_factory=dict)  # where one differs
    is_caching: bool = True  # anthropic: asks to keep what was read of a request
    limit_field: str = "max_tokens"
    first_byte_s: float | None = None  # how long an answer may be waited for; None: the default
    idle_s: float | None = None  # and its next piece
    options: Mapping[str, Any] = field(default_factory=dict)  # of a package's provider

    @property
    def is_packaged(self) -> bool:
        """Whether a class of an installed package is the provider."""
        return ":" in self.kind

    def has_tools(self, model: str) -> bool:
        """Whether a model may be offered tools, as far as the configuration knows."""
        own = self.models.get(model)
        return self.tools if own is None or own.tools is None else own.tools

    def has_images(self, model: str) -> bool | None:
        """Whether a model can see; None where the configuration does not know."""
        own = self.models.get(model)
        return self.images if own is None or own.images is None else own.images


__all__ = [
    "ANTHROPIC",
    "KINDS",
    "OLLAMA",
    "OPENAI_COMPATIBLE",
    "OPENAI_RESPONSES",
    "PROGRAM",
    "ModelSettings",
    "ProviderSettings",
]
