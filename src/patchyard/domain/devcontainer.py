"""What a repository's devcontainer.json says, as far as it may decide. Pure.

Keys and their meaning: the Development Container Specification's metadata reference.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import basename, dirname, join, normpath
from typing import Any

from patchyard.domain.devcontainer_parts import build_in, leads_out, mapping_in, text_in
from patchyard.domain.environment import Limits
from patchyard.domain.environment_limits import EnvironmentLimits
from patchyard.domain.errors import GuardRefused, UsageError
from patchyard.domain.faults import Fault, Place, kind_of
from patchyard.domain.features import (
    CREATING,
    ORDER,
    STARTING,
    VARIABLE,
    Asked,
    Extension,
    Files,
    elsewhere_in,
    features_in,
    lines_of,
)
from patchyard.domain.host_requirements import NEEDS, host_requirements_of, unmet_in
from patchyard.domain.jsonc import parse_jsonc
from patchyard.domain.local_variables import LOCAL, asked_in
from patchyard.domain.sizes import shown_bytes

PLACES = (".devcontainer/devcontainer.json", ".devcontainer.json")
"""Where one is looked for, besides `.devcontainer/NAME/devcontainer.json`."""

DANGEROUS = (
    *("initializeCommand", "runArgs", "privileged", "capAdd", "securityOpt", "mounts"),
    *("workspaceMount", "dockerComposeFile", "service", "runServices"),
)
"""What would weaken walls or run outside of them; compose files can say all of it."""

COUNTED = (
    *("build", "containerEnv", "features", NEEDS, "image", "remoteEnv", "remoteUser"),
    *("containerUser", "workspaceFolder", *CREATING, *STARTING),
    *("context", "dockerFile", ORDER),
)
OF_BUILDS = ("args", "context", "dockerfile", "options", "target")
"""What counts of `build`, or is refused by name; nothing is fetched for `cacheFrom`."""
HARMLESS = ("$schema", "customizations", "name")
"""Of editors: nobody misses them here. All others that do not count are named."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}")


@dataclass(frozen=True, kw_only=True)
class Build:
    """An image that is to be built of files of the base."""

    dockerfile: str  # relative to the repository's top
    context: str = ""  # folder, likewise; empty: the top
    arguments: Mapping[str, str] = field(default_factory=dict)
    target: str = ""  # stage; empty: the last


@dataclass(frozen=True, kw_only=True)
class Devcontainer:
    """One devcontainer.json, as far as it counts."""

    path: str  # relative to the repository's top
    image: str = ""
    build: Build | None = None  # None: the image is there
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""  # where the workspace is seen too; empty: at the checkout's path alone
    user: str = ""  # what the agent is called inside; empty: agent
    is_trusted: bool = False  # its repository was; else what it asks of its host can only be less
    memory_bytes: int | None = None  # of hostRequirements
    cpus: float | None = None
    storage_bytes: int | None = None
    created: tuple[str, ...] = ()  # commands of its making: setup's
    started: tuple[str, ...] = ()  # commands of each start
    features: tuple[str, ...] = ()  # their names
    extension: Extension | None = None  # with features: how they are installed
    passed_over: tuple[str, ...] = ()  # keys that do not count


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What a devcontainer.json may refer to."""

    path: str  # of itself, relative to the repository's top
    checkout: str  # absolute path of the repository
    is_trusted: bool
    void: str = ""  # why trust that was given counts no longer
    local: Callable[[str], str | None]  # a variable of the user's that may be shown
    files: Files  # of the repository


def places_in(names: Collection[str], inside: Callable[[str], Collection[str]]) -> Sequence[str]:
    """Return the paths of the devcontainer.json files of a repository, the nearest first.

    `names` are those at its top, `inside` the paths of what lies in a folder.
    """
    if ".devcontainer" not in names:
        return [place for place in PLACES[1:] if place in names]
    below = set(inside(".devcontainer"))
    own = [place for place in PLACES if place in below or place in names]
    deeper = (f"{folder}/devcontainer.json" for folder in sorted(below))
    return [*own, *(place for place in deeper if place in set(inside(dirname(place))))]


def parse_devcontainer(text: str, sight: Sight) -> Devcontainer:
    """Return what `text` says.

    Raises UsageError with the place for what does not fit, GuardRefused for what only a trusted
    repository may say.
    """
    body = parse_jsonc(text, name=sight.path)
    if not isinstance(body, Mapping):
        raise UsageError(f"{sight.path}: must be an object, not {kind_of(body)}")
    try:
        asked = features_in(mapping_in(body, "features"), sight.path, sight.files)
        refused = _refused(body, asked)
        local = [*asked_in(body), *asked.local]
        ordered = elsewhere_in(body.get(ORDER), sight.path, (ORDER,))
        fetched = [f"the feature {name}" for name in dict.fromkeys([*asked.fetched, *ordered])]
        if (refused or local or fetched) and not sight.is_trusted:
            raise _not_before_trust(sight, [*refused, *local, *fetched])
        return _Reading(body, sight).whole(refused, asked.digests, is_fetching=bool(fetched))
    except Fault as fault:
        hint = fault.hint or f"mend it in {sight.path}"
        raise UsageError(f"{sight.path}: {fault.message}", hint=hint) from fault


def _not_before_trust(sight: Sight, said: Sequence[str]) -> GuardRefused:
    void = f"{sight.void}; " if sight.void else ""
    in_place = " (a plain value may stand in its place)" if any(map(LOCAL.match, said)) else ""
    return GuardRefused(
        f"{sight.path} says {', '.join(said)}, which an untrusted repository may not",
        hint=f"{void}take it out{in_place}, or run `agents trust`: then the file is used, and"
        " still weakens no wall",
    )


def _refused(body: Mapping[str, Any], asked: Asked) -> list[str]:
    found = [key for key in DANGEROUS if body.get(key) not in (None, False, [], {}, "")]
    build = body.get("build")
    if isinstance(build, Mapping) and build.get("options"):
        found.append("build.options")
    return [*found, *asked.weakening]


class _Reading:
    """Reads one document; each method one part of it."""

    def __init__(self, body: Mapping[str, Any], sight: Sight) -> None:
        self._body = body
        self._sight = sight
        self._folder = self._text("workspaceFolder")

    def whole(
        self, refused: Sequence[str], metadata: Mapping[str, str], *, is_fetching: bool
    ) -> Devcontainer:
        body = self._body
        build, image = self._build(), self._text("image")
        if build is None and not image and "dockerComposeFile" not in body:
            raise Fault((), "names neither `image` nor `build`", hint="a container needs one")
        if "dockerComposeFile" in body:
            raise Fault(
                ("dockerComposeFile",),
                "compose files are not supported",
                hint="name `image` or `build` in its place",
            )
        known = {*COUNTED, *HARMLESS, *DANGEROUS}
        said = mapping_in(body, NEEDS)
        needs = host_requirements_of(said)
        unknown = [str(key) for key in body if key not in known]
        unknown += [f"build.{key}" for key in mapping_in(body, "build") if key not in OF_BUILDS]
        over = [*refused, *sorted([*unknown, *unmet_in(said), *self._beyond(needs)])]
        return Devcontainer(
            path=self._sight.path,
            image="" if build else image,
            build=build,
            variables={**self._variables("containerEnv"), **self._variables("remoteEnv")},
            folder=self._inside(),
            user=self._user(),
            is_trusted=self._sight.is_trusted,
            memory_bytes=needs.memory,
            storage_bytes=needs.disk,
            cpus=needs.cpus,
            created=self._commands(CREATING),
            started=self._commands(STARTING),
            features=tuple(sorted(mapping_in(body, "features"))),
            extension=self._extension(metadata, is_fetching=is_fetching),
            passed_over=tuple(over),
        )

    def _beyond(self, needs: EnvironmentLimits) -> list[str]:
        """Return what an untrusted repository asks of its host and can never get."""
        most = Limits().memory_bytes
        if self._sight.is_trusted or most is None or (needs.memory or 0) <= most:
            return []
        return [f"{NEEDS}.memory beyond {shown_bytes(most)} (before `agents trust`)"]

    def _text(self, key: str) -> str:
        return self._filled(text_in(self._body, key, ()), (key,))

    def _extension(self, metadata: Mapping[str, str], *, is_fetching: bool) -> Extension | None:
        """Return what the installer of features is told, commands too: it brings them in order."""
        features = mapping_in(self._body, "features")
        if not features:
            return None
        hooks = {hook: self._commands((hook,)) for hook in (*CREATING, *STARTING)}
        told = {
            "features": {name: self._options(name, said) for name, said in features.items()},
            "remoteUser": self._user(),
            ORDER: self._body.get(ORDER),
            **{hook: dict(enumerate(said)) for hook, said in hooks.items()},
        }
        text = json.dumps({key: value for key, value in told.items() if value})
        return Extension(text=text, metadata=metadata, is_fetching=is_fetching)

    def _options(self, name: str, said: Any) -> Any:
        place = ("features", name)
        if isinstance(said, str):
            return self._filled(said, place)
        if not isinstance(said, Mapping):
            return said
        return {
            option: self._filled(value, (*place, option)) if isinstance(value, str) else value
            for option, value in said.items()
        }

    def _build(self) -> Build | None:
        said = build_in(self._body)
        if not said:
            return None
        dockerfile = self._own_path(text_in(said, "dockerfile", ("build",)), "dockerfile")
        context = self._own_path(text_in(said, "context", ("build",)) or ".", "context")
        if dockerfile is None:
            raise Fault(("build",), "names no `dockerfile`")
        if context and not dockerfile.startswith(f"{context}/"):
            raise Fault(
                ("build", "dockerfile"),
                f"{dockerfile} does not lie in the context {context}",
                hint='widen the context: `"context": ".."`',
            )
        arguments = {} if said.get("args") is None else said["args"]
        if not isinstance(arguments, Mapping):
            raise Fault(("build", "args"), f"must be an object, not {kind_of(arguments)}")
        return Build(
            dockerfile=dockerfile,
            context=context or "",
            arguments={
                name: self._filled(text_in(arguments, name, ("build", "args")), ("build", "args"))
                for name in arguments
            },
            target=text_in(said, "target", ("build",)),
        )

    def _own_path(self, text: str, key: str) -> str | None:
        """Return a path relative to the top; "" is the top itself, None when nothing is said."""
        if not text:
            return None
        path = normpath(join(dirname(self._sight.path), self._filled(text, ("build", key))))
        if leads_out(path):
            raise Fault(("build", key), f"{text} lies outside of the repository")
        return "" if path == "." else path

    def _inside(self) -> str:
        path = normpath(self._folder) if self._folder else ""
        if path and not path.startswith("/"):
            raise Fault(("workspaceFolder",), f"{path} is no absolute path")
        return "" if path == self._sight.checkout else path

    def _user(self) -> str:
        user = self._text("remoteUser") or self._text("containerUser")
        if user and not USER.fullmatch(user):
            raise Fault(("remoteUser",), f"{user!r} is no name of a user")
        return user

    def _variables(self, key: str) -> dict[str, str]:
        found = {}
        for name, value in mapping_in(self._body, key).items():
            if not NAME.fullmatch(name):
                raise Fault((key, name), f"{name!r} is no name of a variable")
            if value is None:  # takes one away that was never there
                continue
            if not isinstance(value, str):
                raise Fault((key, name), f"must be text, not {kind_of(value)}")
            found[name] = self._filled(value, (key, name))
        return found

    def _commands(self, keys: Sequence[str]) -> tuple[str, ...]:
        found: list[str] = []
        for key in keys:
            said = lines_of(self._body.get(key), (key,))
            found += [self._filled(text, (key,)) for text in said]
        return tuple(text for text in found if text.strip())  # a variable may hold nothing

    def _filled(self, text: str, place: Place) -> str:
        """Put what is known in the place of `${...}`."""

        def value(found: re.Match[str]) -> str:
            if not found[2]:
                return found[0]
            name, _, rest = found[1].partition(":")
            variable, _, default = rest.partition(":")
            if name == "localEnv":
                return self._sight.local(variable) or default
            if name == "containerEnv":
                return default
            known = self._known()
            if name not in known:
                raise Fault(place, f"{found[0]} is not known here")
            return known[name]

        whole = VARIABLE.sub(value, text)
        # What the parts come to together is filled in by nobody here; an installer would.
        if not self._sight.is_trusted and LOCAL.search(whole):
            raise _not_before_trust(self._sight, asked_in(whole, place))
        return whole

    def _known(self) -> Mapping[str, str]:
        return places_known(self._sight.checkout, getattr(self, "_folder", ""))


def without_effect(keys: Sequence[str]) -> str:
    """Say of keys that they are passed over."""
    return f"{', '.join(keys)} {'counts' if len(keys) == 1 else 'count'} for nothing here"


def places_known(checkout: str, folder: str) -> Mapping[str, str]:
    """Return what `${...}` stands for; `folder` is where the workspace is seen too, or empty."""
    folder = folder or checkout
    return {
        "localWorkspaceFolder": checkout,
        "localWorkspaceFolderBasename": basename(checkout),
        "containerWorkspaceFolder": folder,
        "containerWorkspaceFolderBasename": basename(folder),
        "devcontainerId": "patchyard",
    }


__all__ = [
    "COUNTED",
    "DANGEROUS",
    "HARMLESS",
    "OF_BUILDS",
    "PLACES",
    "Build",
    "Devcontainer",
    "Sight",
    "parse_devcontainer",
    "places_in",
    "places_known",
    "without_effect",
]
