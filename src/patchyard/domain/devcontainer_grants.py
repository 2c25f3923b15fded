"""What a devcontainer.json has of this machine once its repository is trusted. Pure."""

from dataclasses import dataclass

from patchyard.domain.devcontainer import Devcontainer, Sight, parse_devcontainer
from patchyard.domain.errors import UsageError
from patchyard.domain.features import ORDER, Files, elsewhere_in, features_in
from patchyard.domain.jsonc import parse_jsonc
from patchyard.domain.local_variables import names_in
from patchyard.domain.reach import looks_secret


@dataclass(frozen=True, kw_only=True)
class DevcontainerGrant:
    """What trust lets one devcontainer.json have."""

    path: str  # relative to the repository's top
    variables: tuple[str, ...] = ()  # names of the user's that are filled in
    fetched: tuple[str, ...] = ()  # features that lie elsewhere
    memory_bytes: int | None = None  # that it asks of its host
    cpus: float | None = None
    storage_bytes: int | None = None
    problem: str = ""  # why nothing in it counts before it is mended


def grant_of(text: str, *, path: str, checkout: str, files: Files) -> DevcontainerGrant:
    """Return what `text` is given and fetches, found by reading it as it is read after trust."""
    asked: list[str] = []

    def noted(name: str) -> None:
        asked.append(name)

    sight = Sight(path=path, checkout=checkout, is_trusted=True, local=noted, files=files)
    try:
        read = parse_devcontainer(text, sight)
        return _granted(text, read, asked, files)
    except UsageError as error:
        return DevcontainerGrant(path=path, problem=error.message)


def _granted(text: str, read: Devcontainer, asked: list[str], files: Files) -> DevcontainerGrant:
    body = parse_jsonc(text, name=read.path)
    features = features_in(body.get("features") or {}, read.path, files)
    for metadata in features.folders.values():
        asked += names_in(repr(metadata))
    ordered = elsewhere_in(body.get(ORDER), read.path, (ORDER,))
    return DevcontainerGrant(
        path=read.path,
        variables=tuple(name for name in dict.fromkeys(asked) if not looks_secret(name, "")),
        fetched=tuple(dict.fromkeys([*features.fetched, *ordered])),
        memory_bytes=read.memory_bytes,
        cpus=read.cpus,
        storage_bytes=read.storage_bytes,
    )


__all__ = ["DevcontainerGrant", "grant_of"]
