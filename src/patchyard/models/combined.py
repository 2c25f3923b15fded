"""A repository's `models.yaml` beside the user's own: whose word counts, and where code may go."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchyard.clients.yaml import Document
from patchyard.domain.faults import Fault, Place
from patchyard.models.chains import Chain
from patchyard.models.configured import EXPANDED, KEYS, ModelsFile, Parts, Reading, read_own
from patchyard.models.provider_settings import ProviderSettings
from patchyard.models.providers import built_in

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")  # nothing that looks like another name


@dataclass(frozen=True, kw_only=True)
class Combined(ModelsFile):
    """What both files state, and what of it the repository says."""

    in_repository: frozenset[str] = frozenset()  # roles that it speaks of
    of_repository: frozenset[str] = frozenset()  # providers that it adds


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where a repository may send code, in one of its environments."""

    environment: str  # empty: where none is chosen, too
    providers: Mapping[str, ProviderSettings]
    chains: Mapping[str, Chain]  # by role, or `ROLE for KIND`


@dataclass(frozen=True, kw_only=True)
class RepositoryReading(Reading):
    """What a repository's file is read with. It adds providers, and moves none."""

    known: Collection[str] = ()  # the user's providers, in whichever environment
    overruled: Collection[str] = ()  # of its providers those that do not count

    def check(self, name: str, body: Any, place: Place) -> None:
        """Raise Fault for what no repository says of a provider, trusted or not."""
        super().check(name, body, place)
        if not _NAME.fullmatch(name):
            hint = "lower-case letters of ASCII, digits, `.`, `_` and `-`"
            raise Fault(place, f"{name!r} cannot name a repository's provider", hint=hint)
        if name in built_in(self.environ):
            hint = "take another name; who uses the repository says where that one is"
            raise Fault(place, f"{name} is built in and not a repository's to change", hint=hint)
        if not isinstance(body, Mapping):
            return
        if ":" in str(body.get("kind")):
            hint = "say it in your own models.yaml, for a package that you have installed"
            said = "a repository loads no code into the engine"
            raise Fault((*place, "kind"), said, hint=hint)
        for key in KEYS[1:]:
            if key in body:
                hint = "name a variable: `api_key_env`"
                raise Fault((*place, key), "where a user keeps keys is not here to say", hint=hint)
        if re.search(r"[?#]", str(body.get("base_url"))):
            raise Fault((*place, "base_url"), "must be an address without a query")

    def there(self, stated: Collection[str]) -> Collection[str]:
        """Return the providers that a chain may go to: no files of this machine."""
        return {*built_in(self.environ), *self.known, *stated}

    def filled(self, text: str, place: Place) -> str:
        """Return the text; $$ is one $. Raises Fault for a variable of whoever uses the file."""
        for found in EXPANDED.finditer(text):
            if found[1] is not None:
                hint = "write the value itself; `api_key_env` names the variable of a key"
                said = f"{found[0]} is not filled in: variables are not a repository's to send"
                raise Fault(place, said, hint=hint)
        return EXPANDED.sub("$", text)

    def counted(self, providers: Mapping[str, ProviderSettings]) -> Mapping[str, ProviderSettings]:
        """Return those that nobody overrules."""
        return {name: each for name, each in providers.items() if name not in self.overruled}


def combined(reading: Reading, path: Path, repository: Document) -> Combined:
    """Return what the user's file at `path` and a trusted repository's state.

    The repository's roles go before the user's. A provider that the user's file names, in whichever
    environment, is the user's alone. Raises UsageError with file, line and column.
    """
    mine = read_own(path)
    parts = reading.parts(mine)
    theirs = _of_repository(reading, parts)
    theirs = replace(theirs, overruled=theirs.known)
    stated = theirs.parts(repository)
    own = replace(reading, stages=tuple(stated[1])).chosen(parts, mine)
    said = replace(theirs, stages=tuple(parts[1])).chosen(stated, repository)
    return Combined(
        providers={**said.providers, **own.providers},
        roles={**own.roles, **said.roles},
        preferred={**own.preferred, **said.preferred},
        in_repository=frozenset(said.roles),
        of_repository=frozenset(said.providers),
    )


def destinations(reading: Reading, path: Path, repository: Document) -> Sequence[Destination]:
    """Return all that a repository's file says of where code goes, whoever overrules it.

    Raises UsageError with file, line and column, for the user's file at `path` too.
    """
    theirs = _of_repository(reading, reading.parts(read_own(path)))
    base, stages = theirs.parts(repository)
    return [_destination(name, each) for name, each in (("", base), *stages.items())]


def _destination(environment: str, said: ModelsFile) -> Destination:
    chains = dict(said.roles)
    for role, kinds in said.preferred.items():
        chains |= {f"{role} for {kind}": chain for kind, chain in kinds.items()}
    return Destination(environment=environment, providers=said.providers, chains=chains)


def _of_repository(reading: Reading, parts: Parts) -> RepositoryReading:
    base, stages = parts
    return RepositoryReading(
        environ=reading.environ,
        roles=reading.roles,
        stage=reading.stage,
        known=frozenset(name for each in (base, *stages.values()) for name in each.providers),
    )


__all__ = ["Combined", "Destination", "RepositoryReading", "combined", "destinations"]
