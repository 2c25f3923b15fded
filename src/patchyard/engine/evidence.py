"""What speaks for a result beside the exit codes of its proof: its lines, tests, what it reads."""

import itertools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from patchyard.contracts.trees import Trees
from patchyard.domain.anywhere import named_anywhere
from patchyard.domain.changeset import Base, ChangeSet, ChangeStatus
from patchyard.domain.gate_words import is_source
from patchyard.domain.held import MIXED, SETTINGS
from patchyard.domain.plan import PlanSpec
from patchyard.domain.proofread import CHECKING, inline_tests, touched_proof, touches_tests
from patchyard.domain.protected import is_allowed
from patchyard.engine.comparing import Change, survey
from patchyard.engine.leading import led_to

MOST_KEPT = 20_000  # tests and settings that are looked at around each run


@dataclass(kw_only=True)
class Watch:
    """Files that decide a verdict where a run reads or writes them; and those it was seen to."""

    paths: frozenset[str] = frozenset()  # changed ones, to be read
    read: set[str] = field(default_factory=set)
    kept: frozenset[str] = frozenset()  # tests and settings of the base, to be written
    written: set[str] = field(default_factory=set)
    is_told: bool = False  # that it cannot be seen


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of a change set before its proof runs."""

    change: Change
    touched: frozenset[str]  # tests, settings, and what the proof's commands lead to
    watch: Watch

    def named(self, usual: Collection[str]) -> tuple[str, ...]:
        """Return all paths to look at before trusting the verdict, once the proof has run.

        `usual` are tests and settings that the base's runs write to, too.
        """
        return tuple(sorted(self.touched | self.watch.read | self.rewritten(usual)))

    def rewritten(self, usual: Collection[str]) -> frozenset[str]:
        """Return tests and settings of the base that the result's runs alone wrote to."""
        return frozenset(self.watch.written.difference(usual))


async def gathered(
    trees: Trees, base: Base, changeset: ChangeSet, spec: PlanSpec, checks: Iterable[str]
) -> Evidence:
    """Look at a change set as `spec` has it proven; `checks` are commands of invariants."""
    links = await trees.links(base, changeset)
    change = await survey(trees, base, changeset)
    inline = inline_tests(change.lines.removed)
    ground = replace(
        change.ground,
        touches_tests=bool(inline) or touches_tests(changeset.changes, links),
        is_waived=any(
            is_source(each.path) and is_allowed(each.path, spec.allow_paths)
            for each in changeset.changes
        ),
    )
    commands = [*spec.validate, *(gate.command for gate in spec.gates if gate.command), *checks]
    changed = {path for each in changeset.changes for path in (each.path, each.old_path) if path}
    led = await led_to(trees, base, commands, changed)
    touched = frozenset({*touched_proof(changeset.changes, links), *inline, *led})
    kept = itertools.islice(_deciding(await trees.names(base), changed), MOST_KEPT)
    return Evidence(
        change=replace(change, ground=ground),
        touched=touched,
        watch=Watch(
            paths=_watched(changeset, touched),
            kept=frozenset(kept),
        ),
    )


def _deciding(names: Iterable[str], changed: Collection[str]) -> Iterator[str]:
    """Yield the tests and settings of the base that the change leaves as they are."""
    fits = named_anywhere((*CHECKING, *SETTINGS, *MIXED))
    return (name for name in names if name not in changed and fits.match(name))


def _watched(changeset: ChangeSet, touched: Collection[str]) -> frozenset[str]:
    """Return changed files that are no source code, and not named already."""
    return frozenset(
        each.path
        for each in changeset.changes
        if each.status != ChangeStatus.DELETED
        and each.path not in touched
        and not is_source(each.path)
    )


__all__ = ["MOST_KEPT", "Evidence", "Watch", "gathered"]
