"""Providers by name: built in or configured, and the model that `PROVIDER:MODEL` means.

Environment variables arrive as an argument; keys stay in them and are named, never copied.
"""

import asyncio
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import urlsplit

from patchyard.clients.waits import Waits
from patchyard.contracts.model import Model, OnWait
from patchyard.contracts.provider import ModelProvider
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.messages import ModelFacts
from patchyard.domain.model_names import split_name
from patchyard.models.keyrings import Keyring
from patchyard.models.keys import Key, proxy_secrets
from patchyard.models.limited import LimitedModel, Throttles
from patchyard.models.metered import MeteredModel
from patchyard.models.packaged import Packaged
from patchyard.models.prices import PriceTable
from patchyard.models.provided import ProvidedModel, Work
from patchyard.models.provider_settings import (
    ANTHROPIC,
    KINDS,
    OLLAMA,
    OPENAI_COMPATIBLE,
    OPENAI_RESPONSES,
    PROGRAM,
    ModelSettings,
    ProviderSettings,
)
from patchyard.models.recorded import RecordedModel
from patchyard.models.scripted import ScriptedModel, load_script
from patchyard.models.transcript import Placeholders

if TYPE_CHECKING:
    from patchyard.clients.http import HttpClient
    from patchyard.models.chat_completions import ChatCompletionsModel
    from patchyard.models.messages import MessagesModel
    from patchyard.models.ollama import Loading, OllamaModel
    from patchyard.models.responses import ResponsesModel
    from patchyard.models.troubles import Provider

    Wire = ChatCompletionsModel | MessagesModel | OllamaModel | ProvidedModel | ResponsesModel

FILES = ("recorded", "scripted")  # not providers: the rest of the name is a file
OLLAMA_PORT = 11434
PROXY_HINT = (
    "HTTPS_PROXY, HTTP_PROXY and ALL_PROXY are written http://HOST:PORT; NO_PROXY lists the hosts "
    "that are asked without one"
)


@runtime_checkable
class Listing(Protocol):
    """A model of a provider with a key, whose list may lack it."""

    def require_key(self) -> None:
        """Raise ModelUnavailable where a key is named and not there."""
        ...

    async def require_listed(self) -> None:
        """Raise ModelUnavailable where the provider's list lacks the model."""
        ...


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """All that is needed to open a model by its name."""

    environ: Mapping[str, str] = field(repr=False)
    prices: PriceTable
    configured: Mapping[str, ProviderSettings] = field(default_factory=dict)
    provided: Mapping[str, ModelProvider] = field(default_factory=dict)  # by the program at hand
    work: Work = field(default_factory=Work)  # what providers of others are told of the plan
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # PROVIDER:MODEL, in order
    preferred: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    in_repository: frozenset[str] = frozenset()  # of roles: those a trusted repository speaks of
    of_repository: frozenset[str] = frozenset()  # of providers: those that it adds
    shipped_roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of the package
    throttles: Throttles = field(default_factory=Throttles)  # of this process
    keyring: Keyring = field(default_factory=Keyring, repr=False)
    waits: Waits = field(default_factory=Waits)
    workspace: str = ""  # path of the work tree, for recordings
    plans: str = ""  # folder of the trees of unconfined plans, for recordings
    on_wait: OnWait | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values of all key variables and proxies' passwords; only for hiding them."""
        keys = [self.key(settings).known for settings in self.providers.values()]
        return (*dict.fromkeys(key for key in keys if key), *proxy_secrets(self.environ))

    @property
    def providers(self) -> Mapping[str, ProviderSettings]:
        """Built in, configured and registered; a configured one may take a built-in name."""
        objects = {name: ProviderSettings(kind=PROGRAM) for name in self.provided}
        return {**built_in(self.environ), **self.configured, **objects}

    @property
    def places(self) -> Mapping[str, str]:
        """What tells a repository's providers from others' of that name, in all of a process."""
        added = {name: self.configured[name] for name in self.of_repository}
        return {name: f"{name} at {each.base_url}" for name, each in added.items()}

    def key(self, settings: ProviderSettings) -> Key:
        """Return where a provider's key lies."""
        return Key(
            variable=settings.api_key_env,
            file=settings.api_key_file,
            entry=settings.api_key_keyring,
            environ=self.environ,
            keyring=self.keyring,
        )

    async def read_keys(self) -> None:
        """Read all keys that lie in the keyring, together; what is wrong shows when one is used."""
        keys = [self.key(settings) for settings in self.providers.values()]
        await asyncio.gather(*(key.read() for key in keys))

    def placeholders(self) -> Placeholders:
        """Return what stands in a recording for what differs from run to run, and for keys."""
        return Placeholders(workspace=self.workspace, plans=self.plans, secrets=self.secrets)

    def provider(self, name: str) -> ProviderSettings:
        """Return a provider. Raises UnknownName with those there are."""
        if name not in self.providers:
            raise UnknownName.among("model provider", name, [*self.providers, *FILES])
        return self.providers[name]

    def require(self, name: str) -> None:
        """Raise UsageError or UnknownName unless `name` can be opened; no server is asked.

        The module of a package's provider is imported.
        """
        provider, _ = split_name(name)
        if provider in FILES:
            self.open(name)
        elif self.provider(provider).is_packaged:
            self._packaged(provider).require()

    def open(self, name: str) -> Model:
        """Return the model `PROVIDER:MODEL`, metered. Raises UsageError or UnknownName."""
        provider, model = split_name(name)
        if provider == "scripted":
            return ScriptedModel(
                name=f"scripted:{Path(model).name}", script=load_script(Path(model))
            )
        if provider == "recorded":
            return RecordedModel(Path(model), places=self.placeholders())
        opened = MeteredModel(self._wire(provider, model), self.prices)
        rates = self.provider(provider).rates
        if not rates:
            return opened
        place = self.places.get(provider, provider)
        return LimitedModel(opened, self.throttles.of(place, rates), on_wait=self.on_wait)

    async def look_up(self, name: str) -> ModelFacts:
        """Return what is known of a model, its provider's own list asked; it costs nothing.

        Raises UsageError or UnknownName for the name, ModelUnavailable or ModelFailed for the rest.
        """
        provider, model = split_name(name)
        opened = self.open(name) if provider in FILES else self._wire(provider, model)
        try:
            await opened.prepare()
            if isinstance(opened, Listing):
                await opened.require_listed()
            return MeteredModel(opened, self.prices).facts
        finally:
            await opened.close()

    async def offered(self, provider: str) -> tuple[str, ...]:
        """Return the names of the models that a provider lists; it costs nothing.

        Raises UnknownName for the provider, ModelUnavailable or ModelFailed for the rest.
        """
        opened = self._wire(provider, "")
        try:
            if isinstance(opened, Listing):
                await self.key(self.provider(provider)).read()
                opened.require_key()  # without it nobody is asked
            return await opened.offered()
        finally:
            await opened.close()

    def ollama(self, model: str = "", *, waits: Waits | None = None) -> "OllamaModel":
        """Return a model of the `ollama` provider; without a name it can only list models."""
        from patchyard.models.ollama import OllamaModel  # noqa: PLC0415 - loads the HTTP library

        settings = self.providers[OLLAMA]
        return OllamaModel(
            self._described(OLLAMA, settings, model),
            self._client(settings, waits or self.waits),
            loading=_loading(settings),
            on_wait=self.on_wait,
        )

    def _wire(self, provider: str, model: str) -> "Wire":
        from patchyard.models.chat_completions import (  # noqa: PLC0415 - loads the HTTP library
            ChatCompletionsModel,
            Dialect,
        )
        from patchyard.models.messages import Manner, MessagesModel  # noqa: PLC0415 - likewise
        from patchyard.models.ollama import OllamaModel  # noqa: PLC0415 - likewise
        from patchyard.models.responses import (  # noqa: PLC0415 - likewise
            Bearing,
            ResponsesModel,
        )

        settings = self.provider(provider)
        if provider in self.provided or settings.is_packaged:
            return self._of_others(provider, model, settings)
        described = self._described(provider, settings, model)
        client = self._client(settings, self.waits)
        if settings.kind == OLLAMA:
            return OllamaModel(described, client, loading=_loading(settings), on_wait=self.on_wait)
        if settings.kind == ANTHROPIC:
            return MessagesModel(
                described,
                client,
                manner=Manner(is_streaming=settings.is_streaming, is_caching=settings.is_caching),
                context_tokens=settings.context_tokens,
            )
        if settings.kind == OPENAI_RESPONSES:
            return ResponsesModel(
                described,
                client,
                bearing=Bearing(is_streaming=settings.is_streaming),
                context_tokens=settings.context_tokens,
            )
        return ChatCompletionsModel(
            described,
            client,
            dialect=Dialect(
                is_streaming=settings.is_streaming,
                asks_usage=settings.asks_usage,
                limit_field=settings.limit_field,
            ),
            context_tokens=settings.context_tokens,
        )

    def _of_others(self, provider: str, model: str, settings: ProviderSettings) -> ProvidedModel:
        async def registered() -> ModelProvider:
            return self.provided[provider]

        is_registered = provider in self.provided
        return ProvidedModel(
            f"{provider}:{model}",
            registered if is_registered else self._packaged(provider).made,
            is_owned=not is_registered,
            answer_s=settings.first_byte_s or self.waits.first_byte_s,
            work=self.work,
        )

    def _packaged(self, name: str) -> Packaged:
        settings = self.provider(name)
        return Packaged(
            name=name,
            kind=settings.kind,
            options=settings.options,
            key=self.key(settings),
        )

    def _described(self, name: str, settings: ProviderSettings, model: str) -> "Provider":
        from patchyard.clients.http_trouble import shown  # noqa: PLC0415 - loads the HTTP library
        from patchyard.models.troubles import Provider  # noqa: PLC0415 - likewise

        return Provider(
            name=name,
            base_url=shown(settings.base_url),
            model=model,
            key=self.key(settings),
            has_tools=settings.has_tools(model),
            has_images=settings.has_images(model),
        )

    def _client(self, settings: ProviderSettings, waits: Waits) -> "HttpClient":
        from patchyard.clients.http import (  # noqa: PLC0415 - loads the HTTP library
            HttpClient,
            HttpTrouble,
            Trouble,
        )

        stated = replace(
            waits,
            first_byte_s=settings.first_byte_s or waits.first_byte_s,
            idle_s=settings.idle_s or waits.idle_s,
        )
        has_proxies = not is_loopback(settings.base_url)
        try:
            return HttpClient(settings.base_url, waits=stated, has_proxies=has_proxies)
        except HttpTrouble as trouble:
            hint = PROXY_HINT if trouble.kind is Trouble.PROXY else "name a file of certificates"
            raise UsageError(trouble.message, hint=hint) from trouble


def built_in(environ: Mapping[str, str]) -> dict[str, ProviderSettings]:
    """Return the providers that need no configuration; vendors' own variables are honoured."""
    return {
        "anthropic": ProviderSettings(
            kind=ANTHROPIC,
            base_url=environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com",
            api_key_env="ANTHROPIC_API_KEY",
        ),
        "ollama": ProviderSettings(
            kind=OLLAMA,
            base_url=ollama_url(environ.get("OLLAMA_HOST", "")),
            api_key_env="OLLAMA_API_KEY" if environ.get("OLLAMA_API_KEY") else "",
            is_streaming=True,
        ),
        "openai": ProviderSettings(
            kind=OPENAI_COMPATIBLE,
            base_url=environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1",
            api_key_env="OPENAI_API_KEY",
            default_model="gpt-4o",
            images=True,
            limit_field="max_completion_tokens",
        ),
        "resetdata": ProviderSettings(
            kind=OPENAI_COMPATIBLE,
            base_url=environ.get("RESETDATA_BASE_URL") or "https://models.au-syd.resetdata.ai/v1",
            api_key_env="RESETDATA_API_KEY",
            default_model="llama3.1:8b",
        ),
    }


def ollama_url(host: str) -> str:
    """Return the address that OLLAMA_HOST means; what a server binds to is turned into loopback."""
    text = host.strip().strip("'\"").rstrip("/") or "127.0.0.1"
    scheme, found, rest = text.partition("://")
    if not found:
        scheme, rest = "http", text
    authority, slash, path = rest.partition("/")
    bare = authority.startswith("[") and authority.endswith("]")
    name, colon, port = ("", "", "") if bare else authority.rpartition(":")
    if bare or not colon:
        name, port = authority, {"https": "443"}.get(scheme, str(OLLAMA_PORT))
        port = "80" if scheme == "http" and found else port
    if name in {"", "0.0.0.0", "[::]", "::"}:  # noqa: S104 - a server's address, not one we bind
        name = "127.0.0.1"
    return f"{scheme}://{name}:{port}{slash}{path}"


def is_loopback(url: str) -> bool:
    """Whether an address is on this machine; proxies are never asked for such."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _loading(settings: ProviderSettings) -> "Loading":
    from patchyard.models.ollama import Loading  # noqa: PLC0415 - loads the HTTP library

    window = settings.context_tokens
    if window is None:
        return Loading(is_streaming=settings.is_streaming)
    return Loading(window=window, is_streaming=settings.is_streaming)


__all__ = [
    "ANTHROPIC",
    "FILES",
    "KINDS",
    "OLLAMA",
    "OPENAI_COMPATIBLE",
    "OPENAI_RESPONSES",
    "PROXY_HINT",
    "Catalogue",
    "Listing",
    "ModelSettings",
    "ProviderSettings",
    "built_in",
    "is_loopback",
    "ollama_url",
]
