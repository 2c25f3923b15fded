"""Settings from every place they can stand in, in order of precedence, with what was ignored.

option > environment variable > project context > user file > the repository's file > default.
"""

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from patchyard.clients.build_inputs import build_inputs
from patchyard.clients.glimpse import Glimpse
from patchyard.clients.inventory import inventory
from patchyard.clients.yaml import Document, parse_yaml, read_yaml
from patchyard.domain.devcontainer import places_in
from patchyard.domain.effective import (
    Layer,
    Setting,
    effective,
    environment_limits_in_force,
    limits_in_force,
)
from patchyard.domain.errors import UsageError
from patchyard.domain.faults import Fault, unplaced
from patchyard.domain.limit_settings import LIMIT_KEYS
from patchyard.domain.nearness import near_names
from patchyard.domain.project import Project
from patchyard.domain.resource import Resource
from patchyard.domain.settings import KEYS, LISTS, RESERVED, TEXTS, Settings, parse_settings
from patchyard.domain.trust import (
    Trust,
    admit,
    bare_in,
    digest_of,
    marks_of,
    stricter,
    stricter_environments,
    warning,
)

FOLDER = ".patchyard"
REPOSITORY_FILE = f"{FOLDER}/config.yaml"
MODELS_FILE = f"{FOLDER}/models.yaml"
MODELS_BYTES = 64 * 1024  # of it: each plan holds a copy
IN_FOLDER = f"take it out of {FOLDER}/, where only settings belong"
IN_BUILDS = "let devcontainer.json name plain files, by plain names, or take it out"
PREFIX = "PATCHYARD_"
# Not settings: where the state lies, the marks of our processes, what goes wrong in a
# mock, which part of `models.yaml` counts, and what our own suite reads.
OWN = frozenset(
    {
        *("CALL", "ENVIRONMENT", "GATEWAY", "HOME", "KILLS", "ORIGIN", "PUBLISHED", "SEED", "SOAK"),
        *("MOCK_FAILURES", "MOCK_LATENCY_MS", "MOCK_SEED", "MODELS_ENVIRONMENT", "VM_IMAGE"),
        "MCP_ADDRESS",
    }
)
NOT_GIVEN = Trust()
READ = ("HOME", "MODELS_ENVIRONMENT", "VM_IMAGE")  # of them, what people set
OPTIONS = {"mounts": "--mount ", "network": "--allow-host ", "secrets": "--secret "}
VARIABLES = tuple(key for key in (*KEYS, *LIMIT_KEYS) if key != "limits")  # in lower case


@dataclass(frozen=True, kw_only=True)
class RepositoryFiles:
    """What a repository says of how it is worked on, read once."""

    files: Mapping[str, bytes] = field(default_factory=dict)  # small ones, by path
    hashed: Mapping[str, bytes] = field(default_factory=dict)  # all that lies there, they too
    paths: frozenset[str] = frozenset()  # of all that was hashed
    obstacle: str = ""  # why a settings file that is named there cannot be read
    unhashed: str = ""  # why the whole cannot be trusted: what of it cannot be hashed
    cure: str = ""  # of that

    @property
    def digest(self) -> str:
        """The hash that trust is bound to; empty when there is nothing, or it cannot be hashed."""
        if self.unhashed:
            return ""
        # Trust of before 0.5, when a models.yaml counted for nothing, does not cover one.
        mark = {"/models": b"counts"} if MODELS_FILE in self.files else {}
        return digest_of({**self.hashed, **mark})

    @property
    def marks(self) -> Mapping[str, str]:
        """A mark of each file that was hashed, by path; none where some cannot be hashed."""
        return {} if self.unhashed else marks_of(self.hashed)

    def require_hashed(self) -> None:
        """Raise UsageError when something cannot be hashed, so that no trust would be bound to it.

        See `require_readable` for the settings files themselves.
        """
        if self.unhashed:
            raise UsageError(
                f"{self.unhashed}: what cannot be hashed is not trusted",
                hint=self.cure,
            )

    def require_readable(self) -> None:
        """Raise UsageError when there is a settings file that cannot be read."""
        if self.obstacle:
            hint = "make it a plain file of that name, or take it away"
            raise UsageError(self.obstacle, hint=hint)

    def document(self) -> Document | None:
        """Return the settings file. Raises UsageError when it is no YAML."""
        data = self.files.get(REPOSITORY_FILE)
        return None if data is None else parse_yaml(data, name=REPOSITORY_FILE)

    def models(self) -> str:
        """Return the text of its `models.yaml`, empty where there is none. Raises UsageError."""
        data = self.files.get(MODELS_FILE, b"")
        if len(data) > MODELS_BYTES:
            raise UsageError(f"{MODELS_FILE} is larger than {MODELS_BYTES:,} bytes")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(f"{MODELS_FILE} is not UTF-8: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """All settings in force."""

    values: Mapping[str, Setting]
    layers: tuple[Layer, ...]
    ignored: tuple[str, ...] = ()  # keys of the repository's file that do not count
    warnings: tuple[str, ...] = ()  # a sentence each: they, what cannot be read, unread variables

    def value(self, name: str) -> Any:
        """Return the value of a setting, None where nothing is said."""
        return self.values[name].value

    def said_by(self, name: str, *origins: str) -> bool:
        """Whether a setting has a value that comes from one of `origins`."""
        setting = self.values[name]
        return setting.value is not None and setting.origin in origins

    def refused(self, name: str, fault: Fault) -> UsageError:
        """Return the error for a fault in the value of a setting, with where it was said."""
        origin = self.values[name].origin
        return next(layer for layer in self.layers if layer.origin == origin).refused(fault)


def repository_files(sight: Glimpse) -> RepositoryFiles:
    """Read a repository's settings folder, and what it says of devcontainers."""
    found, said = inventory(sight, FOLDER), _devcontainers(sight)
    texts = {path: data.decode("utf-8", "replace") for path, data in said.items()}
    built = build_inputs(texts, sight)
    files = {**found.files, **said}
    for path in (REPOSITORY_FILE, MODELS_FILE):  # of a folder with too much in it they count too
        if path not in files and (data := sight.read(path)) is not None:
            files[path] = data
    missing = [path for path in (REPOSITORY_FILE, MODELS_FILE) if path not in files]
    obstacles = (_obstacle(sight, path) or _misnamed(path, files) for path in missing)
    return RepositoryFiles(
        files=files,
        hashed={**built.hashed(), **found.hashed(), **said},
        paths=found.paths.union(said, built.paths),
        obstacle=next(filter(None, obstacles), ""),
        unhashed=found.unhashed or built.unhashed,
        cure=IN_FOLDER if found.unhashed else IN_BUILDS,
    )


def _devcontainers(sight: Glimpse) -> Mapping[str, bytes]:
    """Return each devcontainer.json, by path."""
    found = {path: sight.read(path) for path in places_in(sight.names(), sight.names)}
    return {path: data for path, data in found.items() if data is not None}


def _obstacle(sight: Glimpse, file: str) -> str:
    for path, wanted in ((FOLDER, "folder"), (file, "file")):
        found = sight.kind(path)
        if found not in {"", wanted}:
            return f"{path} is a {found}, not a {wanted}: no setting in it counts"
    if sight.kind(file):
        return f"{file} is closed to this user or too large: no setting in it counts"
    return ""


def _misnamed(file: str, files: Collection[str]) -> str:
    other = f"{file.removesuffix('.yaml')}.yml"
    return f"{other} is called {Path(file).name}: nothing in it counts" if other in files else ""


def user_file(environ: Mapping[str, str]) -> Path:
    """Return where the user's own file lies (the XDG configuration directory)."""
    chosen = environ.get("XDG_CONFIG_HOME")
    folder = Path(chosen) if chosen else Path(environ.get("HOME", "/")) / ".config"
    return folder / "patchyard" / "config.yaml"


def configure(
    environ: Mapping[str, str],
    *,
    options: Settings | None = None,
    project: Project | None = None,
    repository: RepositoryFiles | None = None,
    trust: Trust = NOT_GIVEN,
    linked: Sequence[Resource] = (),
) -> Configuration:
    """Put the places together; `linked` are the project's resources, which names can mean.

    Raises UsageError with file, line and column.
    """
    layers = [
        Layer(origin="option", settings=options or Settings(), refused=_of_option),
        *variable_layers(environ),
        *([project_layer(project)] if project is not None else []),
        *user_layers(environ),
    ]
    files = repository or RepositoryFiles()
    unhashed = [f"no `agents trust` here: {files.unhashed}"] if files.unhashed else []
    obstacles = [files.obstacle] if files.obstacle else unhashed
    warnings = (*obstacles, *unread_variables(environ))
    untrusted = [] if trust.is_given or MODELS_FILE not in files.files else [Path(MODELS_FILE).name]
    document = files.document()
    if document is None:
        told = warning(tuple(untrusted), (), void=trust.void)
        return Configuration(
            values=effective(layers),
            layers=tuple(layers),
            ignored=tuple(untrusted),
            warnings=(*([told] if told else []), *warnings),
        )
    known, bare = frozenset({*KEYS, *RESERVED}), bare_in(linked)
    admitted = admit(document.value, known, is_trusted=trust.is_given, bare=bare)
    said = _parsed(document, admitted.body)
    own, weaker = _counted(layers, said, is_trusted=trust.is_given)
    ignored = (*admitted.ignored, *weaker, *untrusted)
    early = (*admitted.until_trust, *weaker, *untrusted)
    passed_over = warning(early, admitted.never, void=trust.void)
    # A stricter limit counts before the user's file, which speaks of no repository in particular.
    tight, _ = _counted(layers, said, is_trusted=False)
    tight = Settings(limits=tight.limits, environment_limits=tight.environment_limits)
    place = next((n for n, layer in enumerate(layers) if layer.origin.startswith("/")), len(layers))
    first = Layer(origin=REPOSITORY_FILE, settings=tight, refused=document.refused)
    layers.insert(place, first)
    written = _written(admitted.body)
    layers.append(
        Layer(origin=REPOSITORY_FILE, settings=own, written=written, refused=document.refused)
    )
    return Configuration(
        values=effective(layers),
        layers=tuple(layers),
        ignored=ignored,
        warnings=(*([passed_over] if passed_over else []), *warnings),
    )


def _counted(
    layers: Sequence[Layer], said: Settings, *, is_trusted: bool
) -> tuple[Settings, tuple[str, ...]]:
    """Return what a repository says without the weaker limits it may not set, and their names."""
    limits, weaker = stricter(limits_in_force(layers), said.limits, is_trusted=is_trusted)
    of_environments, too = stricter_environments(
        environment_limits_in_force(layers), said.environment_limits, is_trusted=is_trusted
    )
    own = replace(said, limits=limits, environment_limits=of_environments)
    return own, (*weaker, *too)


def _parsed(document: Document, body: Any) -> Settings:
    try:
        return parse_settings(body)
    except Fault as fault:
        raise document.refused(fault) from fault


def user_layers(environ: Mapping[str, str]) -> list[Layer]:
    """Return the user's own file as a layer; none when there is no file."""
    path = user_file(environ)
    if not path.exists():
        return []
    document = read_yaml(path)
    settings, written = _parsed(document, document.value), _written(document.value)
    return [Layer(origin=str(path), settings=settings, written=written, refused=document.refused)]


def _written(body: Any) -> Mapping[str, frozenset[str]]:
    """Return the keys of each setting that is said in parts."""
    said = body.items() if isinstance(body, Mapping) else ()
    return {name: frozenset(value) for name, value in said if isinstance(value, Mapping)}


def project_layer(project: Project) -> Layer:
    """Return a project's context as a layer; its environment is a level of the chain instead."""
    return Layer(
        origin=f"project {project.name}",
        settings=Settings(
            automation_profile=project.automation_profile,
            budget=project.budget,
            environment_limits=project.environment_limits,
            execution_env_discovery=project.execution_env_discovery,
            execution_env_priority=project.execution_env_priority,
            gates=project.gates,
            limits=project.limits,
            mcp_servers=project.mcp_servers,
            network=project.network,
            protected_paths=project.protected_paths,
            secrets=project.secrets,
            setup=project.setup,
            validate=project.validate,
        ),
    )


def variable_layers(environ: Mapping[str, str]) -> list[Layer]:
    """Return a layer for each `PATCHYARD_...` variable that sets something."""
    layers = []
    for key in VARIABLES:
        name = f"{PREFIX}{key.upper()}"
        if name in environ:
            body = {key: _variable(key, environ[name], name)}
            depth = 2 if key in LIMIT_KEYS else 1
            refused = functools.partial(_of_variable, name, depth)
            try:
                settings = parse_settings({"limits": body} if key in LIMIT_KEYS else body)
            except Fault as fault:
                raise refused(fault) from fault
            written = _written(body)
            layers.append(Layer(origin=name, settings=settings, written=written, refused=refused))
    return layers


def unread_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence for each `PATCHYARD_...` variable that nothing reads; no value is told."""
    ours = sorted(name.removeprefix(PREFIX) for name in environ if name.startswith(PREFIX))
    known = [key.upper() for key in VARIABLES]
    return tuple(_unread(name, known) for name in ours if name not in {*known, *OWN})


def _unread(name: str, known: Sequence[str]) -> str:
    near = near_names(name, [*known, *READ])
    guess = f"; did you mean {PREFIX}{near[0]}?" if near else ""
    if name == "LIMITS":
        own = ", ".join(f"{PREFIX}{key.upper()}" for key in LIMIT_KEYS)
        guess = f"; each limit has a variable of its own: {own}"
    return f"{PREFIX}{name} is no setting of this version and counts for nothing{guess}"


def _of_variable(name: str, depth: int, fault: Fault) -> UsageError:
    """Return the error for a fault in a variable; a part below its own `depth` is named too."""
    said = fault.message if len(fault.place) > depth else fault.problem
    return unplaced(fault, f"{name}: {said}")


def _of_option(fault: Fault) -> UsageError:
    first = str(fault.place[0]) if fault.place else ""
    option = OPTIONS.get(first, "")
    return unplaced(fault, f"{option}{fault.problem}")


def _variable(key: str, text: str, name: str) -> Any:
    if key in TEXTS or key in {"apply", "execution_environment", "setup_share", "timeout"}:
        return text
    if key in {*LISTS, "clone_secrets", "secrets"} and not text.lstrip().startswith("["):
        return [text] if text.strip() else []
    return parse_yaml(text, name=name).value


__all__ = [
    "FOLDER",
    "MODELS_BYTES",
    "MODELS_FILE",
    "OPTIONS",
    "OWN",
    "PREFIX",
    "READ",
    "REPOSITORY_FILE",
    "VARIABLES",
    "Configuration",
    "RepositoryFiles",
    "configure",
    "project_layer",
    "repository_files",
    "unread_variables",
    "user_file",
    "user_layers",
    "variable_layers",
]
