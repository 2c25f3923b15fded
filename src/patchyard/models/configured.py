"""The user's own `models.yaml`: endpoints by name, keys by the name of a variable, who is asked."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from patchyard.clients.yaml import Document, parse_yaml, read_yaml
from patchyard.domain.errors import UnknownName, UsageError, quoted
from patchyard.domain.faults import Fault, Place, check_keys, kind_of
from patchyard.domain.throttle import Rates
from patchyard.models.chains import Chain, chains_of, preferences_of
from patchyard.models.provider_settings import (
    ANTHROPIC,
    KINDS,
    OLLAMA,
    OPENAI_COMPATIBLE,
    OPENAI_RESPONSES,
    ModelSettings,
    ProviderSettings,
)
from patchyard.models.providers import FILES, built_in

SECTIONS = ("providers", "roles")
ENVIRONMENTS = "environments"
KEYS = ("api_key_env", "api_key_file", "api_key_keyring")  # one of them at most
RATES = ("requests_per_minute", "tokens_per_minute", "concurrent")
NAME = "configs/models.yaml"  # of the file that comes with the package
LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")  # of chat completions
ADDED = {  # to an address, by kind
    ANTHROPIC: ("/v1/messages",),
    OLLAMA: ("/api", "/api/chat"),
    OPENAI_COMPATIBLE: ("/chat/completions",),
    OPENAI_RESPONSES: ("/responses",),
}
_NAME = re.compile(r"[^\s:]{1,100}")
_ADDRESS = re.compile(r"https?://[^/\s@]+(?:/\S*)?")
_CLASS = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)  # MODULE:NAME
_OF_CLASS = (*KEYS, *RATES, "default_model", "first_byte_s", "kind", "options")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
EXPANDED = re.compile(r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "kind": (str,),
    "base_url": (str,),
    "api_key_env": (str,),
    "api_key_file": (str,),
    "api_key_keyring": (str,),
    "default_model": (str,),
    "context_tokens": (int,),
    "is_streaming": (bool,),
    "asks_usage": (bool,),
    "tools": (bool,),
    "images": (bool,),
    "models": (dict,),
    "is_caching": (bool,),
    "limit_field": (str,),
    "requests_per_minute": (int,),
    "tokens_per_minute": (int,),
    "concurrent": (int,),
    "first_byte_s": (int, float),
    "idle_s": (int, float),
    "options": (dict,),
}


_MODEL_TYPES: Mapping[str, tuple[type, ...]] = {"tools": (bool,), "images": (bool,)}


@dataclass(frozen=True, kw_only=True)
class ModelsFile:
    """What a `models.yaml` states."""

    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    roles: Mapping[str, Chain] = field(default_factory=dict)
    preferred: Mapping[str, Mapping[str, Chain]] = field(default_factory=dict)  # role, kind of task


Parts = tuple[ModelsFile, Mapping[str, ModelsFile]]  # for all, and by environment


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a `models.yaml` is read with."""

    environ: Mapping[str, str] = field(default_factory=dict, repr=False)  # for ${NAME}
    roles: Collection[str] = ()  # the roles there are
    stage: str = ""  # which of its `environments` counts; empty: none
    stages: Collection[str] = ()  # the environments of another file, which may have the chosen one

    def shipped_roles(self) -> Mapping[str, Chain]:
        """Return the roles of the file that comes with the package."""
        data = files("patchyard").joinpath(NAME).read_bytes()
        return replace(self, stage="").document(parse_yaml(data, name=NAME)).roles

    def document(self, document: Document) -> ModelsFile:
        """Return what `document` states. Raises UsageError with the place."""
        return self.chosen(self.parts(document), document)

    def parts(self, document: Document) -> Parts:
        """Return what it states for all, and beside it each of its environments: all are checked.

        Raises UsageError with the place.
        """
        if document.value is None:
            return ModelsFile(), {}
        try:
            said = check_keys(document.value, (), (*SECTIONS, ENVIRONMENTS))
            base = self._sections({k: v for k, v in said.items() if k != ENVIRONMENTS}, (), {})
            return base, self._staged(said.get(ENVIRONMENTS), base)
        except Fault as fault:
            raise document.refused(fault) from fault

    def chosen(self, parts: Parts, document: Document) -> ModelsFile:
        """Return what counts: the chosen environment goes over the rest. Raises UsageError."""
        base, stages = parts
        over = stages.get(self.stage, ModelsFile()) if self.stage else ModelsFile()
        if self.stage and self.stage not in {*stages, *self.stages}:
            what = "environment of models (PATCHYARD_MODELS_ENVIRONMENT)"
            unknown = UnknownName.among(what, self.stage, stages)
            if document.value is not None:
                raise document.refused(Fault.at((ENVIRONMENTS,), unknown))
        return ModelsFile(
            providers={**base.providers, **over.providers},
            roles={**base.roles, **over.roles},
            preferred={**base.preferred, **over.preferred},
        )

    def _staged(self, stated: Any, base: ModelsFile) -> Mapping[str, ModelsFile]:
        stages = check_keys(stated, (ENVIRONMENTS,), stated) if stated is not None else {}
        return {
            name: self._sections(
                check_keys(body, (ENVIRONMENTS, name), SECTIONS),
                (ENVIRONMENTS, name),
                base.providers,
            )
            for name, body in stages.items()
        }

    def _sections(
        self, said: Mapping[str, Any], place: Place, known: Mapping[str, ProviderSettings]
    ) -> ModelsFile:
        at = (*place, "providers")
        stated = self._expanded(said.get("providers") or {}, at)
        bodies = check_keys(stated, at, stated if isinstance(stated, Mapping) else ())
        providers = {name: self.provider(name, body, (*at, name)) for name, body in bodies.items()}
        providers = dict(self.counted(providers))
        at = (*place, "roles")
        stated = self._expanded(said.get("roles"), at)
        there = self.there({**known, **providers})
        roles = chains_of(stated, at, known=self.roles, word="role", providers=there)
        preferred = preferences_of(stated, at, roles, providers=there)
        return ModelsFile(providers=providers, roles=roles, preferred=preferred)

    def provider(self, name: str, body: Any, place: Place) -> ProviderSettings:
        """Return what `body` states of the provider `name`. Raises Fault."""
        self.check(name, body, place)
        return _settings(body, place)

    def check(self, name: str, body: Any, place: Place) -> None:
        """Raise Fault for a provider that no `PROVIDER:MODEL` could mean."""
        del body
        _check_name(name, place)

    def counted(self, providers: Mapping[str, ProviderSettings]) -> Mapping[str, ProviderSettings]:
        """Return those of the file's providers that count."""
        return providers

    def there(self, stated: Collection[str]) -> Collection[str]:
        """Return the providers that a chain may go to, where the file has the `stated` ones."""
        return {*built_in(self.environ), *FILES, *stated}

    def filled(self, text: str, place: Place) -> str:
        """Return a text with each ${NAME} and ${NAME:-OTHERWISE} filled in; $$ is one $.

        Raises Fault.
        """

        def fill(found: re.Match[str]) -> str:
            name, otherwise = found.groups()
            if name is None:
                return "$"
            value = self.environ.get(name, "") or otherwise
            if value is None:
                hint = f"set {name}, or write ${{{name}:-OTHERWISE}}"
                raise Fault(place, f"the variable {name} is not set", hint=hint)
            return value

        return EXPANDED.sub(fill, text)

    def _expanded(self, value: Any, place: Place) -> Any:
        """Return it with variables filled in."""
        if isinstance(value, Mapping):
            return {key: self._expanded(each, (*place, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [self._expanded(each, (*place, n)) for n, each in enumerate(value)]
        return self.filled(value, place) if isinstance(value, str) else value


def _check_name(name: str, place: Place) -> None:
    if name in FILES:
        hint = "take another name"
        raise Fault(place, f"{name!r} is taken: `{name}:FILE` is a file", hint=hint)
    if not _NAME.fullmatch(name):
        hint = "`PROVIDER:MODEL` names a model: no colon and no space is in the first part"
        raise Fault(place, f"{quoted(name)} cannot name a provider", hint=hint)


def require_provider_name(name: str) -> None:
    """Raise UsageError for a name that no provider can have."""
    try:
        _check_name(name, ())
    except Fault as fault:
        raise UsageError(fault.problem, hint=fault.hint) from fault


def read_own(path: Path) -> Document:
    """Return the file at `path`, one that says nothing where there is none. Raises UsageError."""
    return read_yaml(path) if path.exists() else Document(name=str(path), value=None)


def _settings(body: Any, place: Place) -> ProviderSettings:
    said = _checked(body, place, _TYPES)
    kind = said.get("kind", OPENAI_COMPATIBLE)
    is_class = bool(_CLASS.fullmatch(kind))
    if kind not in KINDS and not is_class:
        known = f"known: {', '.join(KINDS)}; MODULE:CLASS of an installed package"
        raise Fault((*place, "kind"), f"there is no kind {kind!r}", hint=known)
    if is_class:
        _require_keys_of(said, place)
    elif "options" in said:
        raise Fault(
            (*place, "options"), f"a provider of kind {kind} takes none", hint="leave it out"
        )
    else:
        _check_endpoint(said, place)
    _check_variable(said, place)
    models = {
        name: ModelSettings(**_checked(own, (*place, "models", name), _MODEL_TYPES))
        for name, own in said.get("models", {}).items()
    }
    _check_key(said, place)
    rates = {name: value for name, value in said.items() if name in RATES}
    rest = {name: value for name, value in said.items() if name not in RATES}
    own = {"kind": kind, "models": models, "rates": Rates(**rates)}
    return ProviderSettings(**{**rest, **own})


def _require_keys_of(said: Mapping[str, Any], place: Place) -> None:
    """Raise Fault for what a package's provider says itself, or is not read for it."""
    for key in said:
        if key not in _OF_CLASS:
            hint = (
                f"put it below `options` if the class takes it; else known: {', '.join(_OF_CLASS)}"
            )
            raise Fault((*place, key), f"{key!r} is nothing of a package's provider", hint=hint)


def _check_endpoint(said: Mapping[str, Any], place: Place) -> None:
    if not _ADDRESS.fullmatch(said.get("base_url", "")):
        hint = 'such as "https://llm.example/v1": http or https, and no password in it'
        raise Fault((*place, "base_url"), "must be the endpoint's address", hint=hint)
    _check_wire(said, place)


def _check_variable(said: Mapping[str, Any], place: Place) -> None:
    variable = said.get("api_key_env", "")
    if variable and not _VARIABLE.fullmatch(variable):
        hint = "put the key into an environment variable and write the variable's name here"
        raise Fault((*place, "api_key_env"), "must be the name of a variable", hint=hint)


def _check_wire(said: Mapping[str, Any], place: Place) -> None:
    """Raise Fault for an address with what is added to it, and for a field that nobody reads."""
    address, kind = said["base_url"].rstrip("/"), said.get("kind", OPENAI_COMPATIBLE)
    added = next((end for end in ADDED[kind] if address.endswith(end)), "")
    if added:
        hint = f"leave {added} out: it is added"
        raise Fault((*place, "base_url"), "must be the address that all requests share", hint=hint)
    if said.get("limit_field", LIMIT_FIELDS[0]) not in LIMIT_FIELDS:
        unknown = UnknownName.among("limit field", said["limit_field"], LIMIT_FIELDS)
        raise Fault.at((*place, "limit_field"), unknown)


def _checked(body: Any, place: Place, types: Mapping[str, tuple[type, ...]]) -> Mapping[str, Any]:
    said: Mapping[str, Any] = check_keys(body, place, types)
    for key, value in said.items():
        if type(value) not in types[key]:
            wanted = kind_of(types[key][0]())
            raise Fault((*place, key), f"must be {wanted}, not {kind_of(value)}")
        if int in types[key] and not value > 0:
            raise Fault((*place, key), "must be more than 0")
    return said


def _check_key(said: Mapping[str, Any], place: Place) -> None:
    named = [name for name in KEYS if said.get(name)]
    if len(named) > 1:
        raise Fault((*place, named[1]), f"the key is said to be in {named[0]} already")
    if said.get("api_key_file") and not Path(said["api_key_file"]).is_absolute():
        hint = "such as ${HOME}/.config/keys/house"
        raise Fault((*place, "api_key_file"), "must be an absolute path", hint=hint)
    service, slash, user = said.get("api_key_keyring", "").rpartition("/")
    if "api_key_keyring" in said and not (service and slash and user):
        raise Fault((*place, "api_key_keyring"), "must be SERVICE/USER, as the keyring has it")


__all__ = [
    "ADDED",
    "ENVIRONMENTS",
    "EXPANDED",
    "KEYS",
    "LIMIT_FIELDS",
    "NAME",
    "RATES",
    "SECTIONS",
    "ModelsFile",
    "Parts",
    "Reading",
    "read_own",
    "require_provider_name",
]
