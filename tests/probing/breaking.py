"""Walls of `process`, each taken down alone: the view, the launch, the toolbox."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients import cgroups
from patchyard.clients.berths import serving
from patchyard.clients.bubblewrap import Launch
from patchyard.clients.copies import compiled_toolbox
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.walls import Place, Show, View
from patchyard.domain.environment import EnvironmentSpec
from patchyard.environments import host, process
from patchyard.toolbox.spawning import spawn_detached

Words = list[str]


def relaunch(monkeypatch: pytest.MonkeyPatch, edit: Callable[[Words], Words]) -> None:
    """Start bubblewrap with other words."""
    real = vars(process)["launch"]  # another wall may be down already

    @contextlib.contextmanager
    def broken(*arguments: Any, **further: Any) -> Iterator[Launch]:
        with real(*arguments, **further) as prepared:
            yield replace(prepared, argv=tuple(edit(list(prepared.argv))))

    monkeypatch.setattr(process, "launch", broken)


def without(*groups: Words) -> Callable[[Words], Words]:
    """Leave these options out wherever they stand; `*` is any one word."""

    def edit(words: Words) -> Words:
        left: Words = []
        while words:
            gone = next((group for group in groups if _begins(words, group)), None)
            words, kept = (words[len(gone) :], []) if gone else (words[1:], words[:1])
            left += kept
        return left

    return edit


def _begins(words: Words, group: Words) -> bool:
    pairs = zip(words, group, strict=False)
    return len(words) >= len(group) and all(wanted in {word, "*"} for word, wanted in pairs)


def instead(old: Words, new: Words) -> Callable[[Words], Words]:
    """Put other words in the place of these."""

    def edit(words: Words) -> Words:
        for at in range(len(words)):
            if words[at : at + len(old)] == old:
                return [*words[:at], *new, *words[at + len(old) :]]
        raise AssertionError(old)

    return edit


def reshow(monkeypatch: pytest.MonkeyPatch, edit: Callable[[View], View]) -> None:
    """Show other places."""
    real = vars(process)["build_view"]

    def broken(*arguments: Any, **further: Any) -> View:
        return edit(real(*arguments, **further))

    monkeypatch.setattr(process, "build_view", broken)


def also(*places: Place) -> Callable[[View], View]:
    """Show these as well, in the place of those of the same name."""

    def edit(view: View) -> View:
        by_target = {place.target: place for place in (*view.places, *places)}
        shown = sorted(by_target.values(), key=lambda place: place.target.split("/"))
        return replace(view, places=tuple(shown))

    return edit


def bait_folder(view: View) -> Path:
    """Return where the battery keeps its bait, by the workspace that is shown."""
    writable = next(p for p in view.places if "/patchyard-probe-" in p.source)
    parts = Path(writable.source).parts
    at = next(n for n, part in enumerate(parts) if part.startswith("patchyard-probe-"))
    return Path(*parts[: at + 1])


def beside_the_workspace(name: str, show: Show) -> Callable[[View], View]:
    """Show a folder of the bait."""

    def edit(view: View) -> View:
        folder = str(bait_folder(view) / name)
        return also(Place(target=folder, show=show, source=folder))(view)

    return edit


def writable_workspace(view: View) -> View:
    """Show the workspace for writing, whatever was asked."""
    changed = [
        replace(place, show=Show.WRITABLE) if "/patchyard-probe-" in place.source else place
        for place in view.places
    ]
    return replace(view, places=tuple(changed))


def with_engines_variables(view: View) -> View:
    """Give commands all that the engine has."""
    return replace(view, variables={**os.environ, **view.variables})


def reserve(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[EnvironmentSpec], EnvironmentSpec]
) -> None:
    """Start the toolbox as if another spec had been given."""

    def broken(spec: EnvironmentSpec, identity: AgentIdentity, **further: Any) -> list[str]:
        return serving(change(spec), identity, **further)

    for module in (process, host):
        monkeypatch.setattr(module, "serving", broken)


def rewrite(
    monkeypatch: pytest.MonkeyPatch, folder: Path, changes: Mapping[str, Sequence[str]]
) -> None:
    """Run a toolbox whose code was changed: file to the old text and the new one."""

    def broken(shelf: Path, interpreter: str) -> Path:
        copy = folder / "broken"
        if not copy.exists():
            shutil.copytree(compiled_toolbox(shelf, interpreter), copy)
            shutil.rmtree(copy / "toolbox/__pycache__")
            for name, (old, new) in changes.items():
                file = copy / "toolbox" / name
                text = file.read_text()
                assert old in text, f"{name} has no {old!r} any more"
                file.write_text(text.replace(old, new))
        return copy

    for module in (process, host):
        monkeypatch.setattr(module, "compiled_toolbox", broken)


def unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set no bounds, neither by control group nor by resource limit."""

    def no_limits(*_: Any, **__: Any) -> dict[str, int]:
        return {}

    def no_group(*_: Any, **__: Any) -> tuple[str, ...]:
        return ()

    monkeypatch.setattr(process, "resource_limits", no_limits)
    monkeypatch.setattr(cgroups, "own_group", no_group)


def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the agent stay root."""

    def root(*_: Any, **__: Any) -> AgentIdentity:
        return AgentIdentity(uid=0, gid=0, is_switched=True)

    monkeypatch.setattr(process, "agent_of", root)


def leaking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pass on a folder that the engine has open."""
    real = spawn_detached

    def broken(argv: Any, *, env: Any, descriptors: Mapping[int, int]) -> int:
        leaks = [int(path.name) for path in Path("/proc/self/fd").iterdir() if _is_leak(path)]
        further = {60 + n: descriptor for n, descriptor in enumerate(leaks)}
        return real(argv, env=env, descriptors={**descriptors, **further})

    monkeypatch.setattr(process, "spawn_detached", broken)


def _is_leak(path: Path) -> bool:
    try:
        return path.readlink().name == "leak"
    except OSError:
        return False


__all__ = [
    "Words",
    "also",
    "as_root",
    "bait_folder",
    "beside_the_workspace",
    "instead",
    "leaking",
    "relaunch",
    "reserve",
    "reshow",
    "rewrite",
    "unbounded",
    "with_engines_variables",
    "without",
    "writable_workspace",
]
