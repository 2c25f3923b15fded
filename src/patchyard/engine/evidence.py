"""What speaks for a result beside the exit codes of its proof: its lines, tests, what it reads."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from patchyard.contracts.trees import Trees
from patchyard.domain.changeset import Base, ChangeSet, ChangeStatus
from patchyard.domain.gate_words import is_source
from patchyard.domain.plan import PlanSpec
from patchyard.domain.proofread import inline_tests, touched_proof, touches_tests
from patchyard.domain.protected import is_allowed
from patchyard.engine.comparing import Change, survey
from patchyard.engine.leading import led_to


@dataclass(kw_only=True)
class Watch:
    """Changed files that decide a verdict where a proof reads them; and those it was seen to."""

    paths: frozenset[str] = frozenset()
    read: set[str] = field(default_factory=set)
    is_told: bool = False  # that it cannot be seen


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of a change set before its proof runs."""

    change: Change
    touched: frozenset[str]  # tests, settings, and what the proof's commands lead to
    watch: Watch

    @property
    def named(self) -> tuple[str, ...]:
        """All paths to look at before trusting the verdict, once the proof has run."""
        return tuple(sorted(self.touched | self.watch.read))


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
    return Evidence(
        change=replace(change, ground=ground),
        touched=touched,
        watch=Watch(paths=_watched(changeset, touched)),
    )


def _watched(changeset: ChangeSet, touched: Collection[str]) -> frozenset[str]:
    """Return changed files that are no source code, and not named already."""
    return frozenset(
        each.path
        for each in changeset.changes
        if each.status != ChangeStatus.DELETED
        and each.path not in touched
        and not is_source(each.path)
    )


__all__ = ["Evidence", "Watch", "gathered"]
