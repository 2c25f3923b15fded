"""Features of a devcontainer: what a repository's own ones say, and what counts of it. Pure.

Keys and their meaning: the Development Container Specification's reference of features.
"""

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import dirname, join, normpath
from typing import Any, Protocol

from patchyard.domain.errors import UsageError
from patchyard.domain.faults import Fault, Place, kind_of
from patchyard.domain.jsonc import parse_jsonc
from patchyard.domain.local_variables import asked_in
from patchyard.domain.nearness import near_names
from patchyard.toolbox.wire import loaded

CREATING = ("onCreateCommand", "updateContentCommand", "postCreateCommand")
STARTING = ("postStartCommand", "postAttachCommand")
WEAKENING = ("privileged", "capAdd", "securityOpt", "mounts", "init", "entrypoint")
"""What features ask of the container that they are in; our walls decide it."""

HOME = ".devcontainer"
"""Where a repository's own features lie, and nowhere else (the specification)."""

METADATA = "devcontainer-feature.json"
INSTALLER = "install.sh"
VARIABLE = re.compile(r"\$\{([^}]*+)(\}|\Z)")  # one without an end is looked at once
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
BEFORE = "installsAfter"
ORDER = "overrideFeatureInstallOrder"
INHERITED = "__proto__"  # what lies below it counts for the CLI as if it lay beside it


class Files(Protocol):
    """The files of a repository."""

    def read(self, path: str) -> bytes | None:
        """Return a small file, None when there is none (or something else)."""
        ...

    def kind(self, path: str) -> str:
        """Return what lies there: file, folder, link or special file; empty for nothing."""
        ...


@dataclass(frozen=True, kw_only=True)
class Extension:
    """What is installed on top of an image."""

    text: str  # the devcontainer.json that the installer is given: features and commands
    is_fetching: bool = False  # some lie elsewhere; of a trusted repository alone
    metadata: Mapping[str, str] = field(default_factory=dict)  # digest of each own one's, by path

    @property
    def folders(self) -> tuple[str, ...]:
        """Where the repository's own ones lie, relative to its top."""
        return tuple(dirname(path) for path in self.metadata)


@dataclass(kw_only=True)
class Asked:
    """What features ask for, found by reading a repository's own ones."""

    folders: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # metadata by its folder
    digests: dict[str, str] = field(default_factory=dict)  # of the texts of it, by their path
    fetched: list[str] = field(default_factory=list)  # names of features that lie elsewhere
    weakening: list[str] = field(default_factory=list)  # `KEY of FEATURE`
    local: list[str] = field(default_factory=list)  # `${localEnv:NAME} in KEY of FILE`


def features_in(said: Mapping[str, Any], config: str, files: Files) -> Asked:
    """Read the features that the devcontainer.json `config` says, and those they depend on.

    Raises Fault for what does not fit: one that is not there, an unknown option, a cycle.
    """
    asked = Asked()
    _walk(said, _Walk(config=config, files=files, asked=asked))
    return asked


def own_folders(text: str, config: str, files: Files) -> Sequence[str]:
    """Return the folders of a repository's own features that the devcontainer.json `config` needs.

    Whatever does not fit is passed over: it is named when the devcontainer is used.
    """
    try:
        body = parse_jsonc(text, name=config)
        return list(features_in(body.get("features") or {}, config, files).folders)
    except (AttributeError, UsageError):
        return []


@dataclass(frozen=True, kw_only=True)
class _Walk:
    config: str
    files: Files
    asked: Asked
    chain: tuple[str, ...] = ()  # the features that led here


def _walk(said: Mapping[str, Any], walk: _Walk) -> None:
    for name, options in said.items():
        if name in walk.chain:
            cycle = " → ".join((*walk.chain[walk.chain.index(name) :], name))
            raise Fault(("features",), f"features depend on each other in a circle: {cycle}")
        if not is_local(name):
            walk.asked.fetched += [name] if name not in walk.asked.fetched else []
            continue
        place: Place = ("features", name)
        folder = _folder(name, walk.config, place)
        if folder not in walk.asked.folders:
            walk.asked.folders[folder] = _metadata(name, folder, walk, place)
        body = walk.asked.folders[folder]
        _check_options(options, body, place)
        walk.asked.fetched += [
            each
            for each in elsewhere_in(body.get(BEFORE), walk.config, (*place, BEFORE))
            if each not in walk.asked.fetched
        ]
        further = _object(body, "dependsOn", place)
        deeper = (*walk.chain, name)
        _walk(further, _Walk(config=walk.config, files=walk.files, asked=walk.asked, chain=deeper))


def is_name(said: Any) -> bool:
    """Whether a feature may be called so: it becomes a path and a word of a Dockerfile."""
    return isinstance(said, str) and NAME.fullmatch(said) is not None


def is_local(name: str) -> bool:
    """Whether a feature is one of the repository's own, by its path."""
    return name.startswith(("./", "../", "/"))


def elsewhere_in(names: Any, config: str, place: Place) -> Sequence[str]:
    """Return which of these lie elsewhere: the CLI asks there, if only for their order.

    Raises Fault for a path that leads out of where the repository's own features lie.
    """
    if names is None:
        return ()
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Fault(place, f"must be a list of texts, not {kind_of(names)}")
    for name in filter(is_local, names):
        _folder(name, config, place)
    return [name for name in names if not is_local(name)]


def _folder(name: str, config: str, place: Place) -> str:
    path = normpath(join(dirname(config), name))
    if path.startswith(("../", "/")):
        raise Fault(place, f"{name} lies outside of the repository")
    if not path.startswith(f"{HOME}/"):
        raise Fault(place, f"{path} does not lie in {HOME}", hint=f"move it to {HOME}/")
    return path


def _metadata(name: str, folder: str, walk: _Walk, place: Place) -> Mapping[str, Any]:
    """Return what a feature says of itself, and note what it asks for."""
    files = walk.files
    for path, wanted in (
        (folder, "folder"),
        (f"{folder}/{METADATA}", "file"),
        (f"{folder}/{INSTALLER}", "file"),
    ):
        found = files.kind(path)
        if found != wanted:
            what = f"is a {found}" if found else "is not there"
            raise Fault(place, f"{path} {what}, and a feature needs that {wanted}")
    data = files.read(f"{folder}/{METADATA}")
    if data is None:
        raise Fault(place, f"{folder}/{METADATA} cannot be read, or is too large")
    walk.asked.digests[f"{folder}/{METADATA}"] = hashlib.sha256(data).hexdigest()
    body = parse_jsonc(data.decode("utf-8", "replace"), name=f"{folder}/{METADATA}")
    if not isinstance(body, Mapping):
        raise Fault(place, f"{folder}/{METADATA} must be an object, not {kind_of(body)}")
    if INHERITED in body:
        raise Fault((*place, INHERITED), "is no key of a feature")
    own = body.get("id", "own")
    if not is_name(own):  # the CLI makes a folder of that name
        raise Fault((*place, "id"), f"{own!r} is no name of a feature", hint=f"as {NAME.pattern}")
    walk.asked.weakening += weakening_in([{**body, "id": name}])
    walk.asked.local += asked_in(body, file=f"{folder}/{METADATA}")
    return body


def _check_options(said: Any, body: Mapping[str, Any], place: Place) -> None:
    if isinstance(said, (str, bool)):  # a version; the usual ones
        return
    if not isinstance(said, Mapping):
        raise Fault(place, f"must be an object of options, not {kind_of(said)}")
    known = _object(body, "options", place)
    for option, value in said.items():
        if option not in known:
            near = near_names(option, known)
            guess = f"; did you mean {near[0]!r}?" if near else ""
            there = ", ".join(sorted(known)) or "none"
            raise Fault(
                (*place, option), f"unknown option {option!r}{guess}", hint=f"known: {there}"
            )
        if not isinstance(value, (str, bool)):
            raise Fault((*place, option), f"must be text, true or false, not {kind_of(value)}")
        allowed = known[option].get("enum") if isinstance(known[option], Mapping) else None
        if allowed and value not in allowed:
            raise Fault((*place, option), f"{value!r} is none of {', '.join(map(str, allowed))}")


def _object(body: Mapping[str, Any], key: str, place: Place) -> Mapping[str, Any]:
    value = body.get(key) or {}
    if not isinstance(value, Mapping):
        raise Fault((*place, key), f"must be an object, not {kind_of(value)}")
    return value


def weakening_in(metadata: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what of an image's metadata asks for more than the walls give: `KEY of FEATURE`."""
    return [
        f"{key} of {entry['id']}"
        for entry in metadata
        for key in WEAKENING
        if entry.get("id") and entry.get(key) not in (None, False, [], {}, "")
    ]


def parse_metadata(text: str) -> Sequence[Mapping[str, Any]]:
    """Return the entries of an image's label `devcontainer.metadata`, in the order of installing.

    Raises UsageError when it is none.
    """
    try:
        body = loaded(text)
    except ValueError as error:
        raise UsageError(f"the image's devcontainer.metadata is no JSON: {error}") from error
    entries = body if isinstance(body, list) else [body]
    return [entry for entry in entries if isinstance(entry, Mapping)]


def commands_in(
    metadata: Sequence[Mapping[str, Any]], hooks: Sequence[str], known: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the lifecycle commands of an image's metadata: hook by hook, features before the rest.

    `known` are values of `${...}`; of what is not among them a shell knows.
    """
    found: list[str] = []
    for hook in hooks:
        for entry in metadata:
            found += [filled(text, known) for text in lines_of(entry.get(hook), (hook,))]
    return tuple(text for text in found if text.strip())  # a variable may hold nothing


def lines_of(said: Any, place: Place) -> Sequence[str]:
    """Return the commands that one hook names: a text, a list of words, or several by name."""
    listed = list(said.values()) if isinstance(said, Mapping) else [said]
    return [text for each in listed if (text := _line(each, place))]


def _line(said: Any, place: Place) -> str:
    if said is None:
        return ""
    if isinstance(said, str):
        return said
    if isinstance(said, list) and all(isinstance(word, str) for word in said):
        return shlex.join(said)
    raise Fault(place, f"must be a text or a list of texts, not {kind_of(said)}")


def filled(text: str, known: Mapping[str, str]) -> str:
    """Put what is known in the place of `${...}`; nothing of this machine is."""

    def value(found: re.Match[str]) -> str:
        if not found[2]:
            return found[0]
        name, _, rest = found[1].partition(":")
        if name in {"localEnv", "containerEnv"}:
            return rest.partition(":")[2]
        return known.get(name, found[0])

    return VARIABLE.sub(value, text)


__all__ = [
    "CREATING",
    "HOME",
    "INHERITED",
    "INSTALLER",
    "METADATA",
    "ORDER",
    "STARTING",
    "VARIABLE",
    "WEAKENING",
    "Asked",
    "Extension",
    "Files",
    "commands_in",
    "elsewhere_in",
    "features_in",
    "filled",
    "is_local",
    "is_name",
    "lines_of",
    "own_folders",
    "parse_metadata",
    "weakening_in",
]
