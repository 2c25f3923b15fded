"""What speaks for a result beside the exit codes of its proof: its lines, tests, what it reads."""

import asyncio
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchyard.contracts.trees import Trees
from patchyard.domain.anywhere import named_anywhere
from patchyard.domain.changeset import Base, ChangeSet, ChangeStatus
from patchyard.domain.gate_words import is_source
from patchyard.domain.held import MIXED, SETTINGS
from patchyard.domain.inline_tests import touches_inline
from patchyard.domain.keyfiles import touched_key_files
from patchyard.domain.ousting import may_oust, ousts
from patchyard.domain.patch_lines import Lines
from patchyard.domain.plan import PlanSpec
from patchyard.domain.proofread import CHECKING, touched_proof, touches_tests
from patchyard.domain.protected import is_allowed
from patchyard.engine.beside_gates import Beside
from patchyard.engine.comparing import MOST_READ, Change, survey
from patchyard.engine.leading import led_to

MOST_LOOKED_AT = 20_000  # tests and settings of the base, around each run


@dataclass(kw_only=True)
class Watch:
    """Files that decide a verdict where a run reads or writes them; and those it was seen to."""

    paths: frozenset[str] = frozenset()  # changed ones, to be read
    read: set[str] = field(default_factory=set)
    kept: frozenset[str] = frozenset()  # tests and settings of the base, to be written
    written: set[str] = field(default_factory=set)

    def of_reads(self) -> "Watch":
        """Return a watch of what is read alone, that adds to the same paths."""
        return Watch(paths=self.paths, read=self.read)


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
    trees: Trees,
    base: Base,
    changeset: ChangeSet,
    spec: PlanSpec,
    checks: Iterable[str],
    *,
    beside: Beside,
    deciding: frozenset[str],
) -> Evidence:
    """Look at a change set as `spec` has it proven; `checks` are commands of invariants.

    `beside` is what else runs in an environment of the proof.

    `deciding` are the tests and settings of the base, as `deciding_in` picks them out.
    """
    links = await trees.links(base, changeset)
    change = await survey(trees, base, changeset)
    old, new = await _inline(trees, base, change)
    named = await asyncio.to_thread(touched_proof, changeset.changes, links)  # of many links, long
    ground = replace(
        change.ground,
        touches_tests=bool(old) or await asyncio.to_thread(touches_tests, changeset.changes, links),
        is_waived=_is_waived(changeset, spec, settled=named),
    )
    commands = [*spec.validate, *(gate.command for gate in spec.gates if gate.command), *checks]
    commands += beside.always
    if beside.setup:
        anew = await asyncio.to_thread(touched_key_files, changeset.changes, links)
        commands += beside.setup if anew else ()  # it runs anew, on what the change made
    changed = {path for each in changeset.changes for path in (each.path, each.old_path) if path}
    led = await led_to(trees, base, map(beside.from_top, commands), changed)
    unread = (path for path, lines in ground.changed.items() if lines is None and is_source(path))
    ousting = await _ousting(trees, base, changeset)
    touched = frozenset({*named, *ousting, *old, *new, *led, *_lost(changeset), *unread})
    return Evidence(
        change=replace(change, ground=ground),
        touched=touched,
        watch=Watch(
            paths=_watched(changeset, touched),
            kept=deciding - changed,
        ),
    )


async def _ousting(trees: Trees, base: Base, changeset: ChangeSet) -> set[str]:
    """Return added files that a run takes in the place of a module of a language or a runner."""
    maybe = [each for each in changeset.changes if may_oust(each)]
    names = await trees.names(base) if maybe else ()
    added = {each.path for each in changeset.changes}
    return {each.path for each in maybe if ousts(each, names, added)}


async def _inline(trees: Trees, base: Base, change: Change) -> tuple[set[str], set[str]]:
    """Return the source files in which tests beside the code were changed: on each side, by path.

    What is too large to be looked at counts as one.
    """
    old, new = change.lines.removed, change.lines.added
    paths = sorted(path for path in {*old, *new} if is_source(path))
    found: tuple[set[str], set[str]] = (set(), set())
    for start in range(0, len(paths), MOST_READ):
        some = paths[start : start + MOST_READ]
        texts = await change.texts(trees, base, some)
        old_ones = {path: old[path] for path in some if path in old and path in change.before}
        new_ones = {path: new[path] for path in some if path in new and path in change.after}
        found[0].update(await asyncio.to_thread(_among, texts.before, old_ones))
        found[1].update(await asyncio.to_thread(_among, texts.after, new_ones))
    return found


def _among(texts: Mapping[str, Sequence[str]], changed: Mapping[str, Lines]) -> set[str]:
    return {
        path
        for path, lines in changed.items()
        if path not in texts or touches_inline(path, texts[path], lines)
    }


def _is_waived(changeset: ChangeSet, spec: PlanSpec, *, settled: Collection[str]) -> bool:
    """Whether the user let a file pass that tests may be named by: source code, or data.

    `settled` are changed tests and settings: who lets one of these pass, or a protected path, says
    nothing of how many tests run, but for source code.
    """
    others = {*settled, *(each.path for each in changeset.findings)}
    return any(
        is_allowed(each.path, spec.allow_paths)
        for each in changeset.changes
        if is_source(each.path) or each.path not in others
    )


async def deciding_in(trees: Trees, base: Base) -> frozenset[str]:
    """Return the tests and settings of a base; tests first where there are too many."""
    return await asyncio.to_thread(_deciding, await trees.names(base))


def _deciding(names: Collection[str]) -> frozenset[str]:
    tests, settings = named_anywhere(CHECKING), named_anywhere((*SETTINGS, *MIXED))
    first = (name for name in names if tests.match(name))
    rest = (name for name in names if settings.match(name))
    return frozenset(itertools.islice(itertools.chain(first, rest), MOST_LOOKED_AT))


def _lost(changeset: ChangeSet) -> Iterator[str]:
    """Yield files of the base that are gone and no source code: no run on the result reads them."""
    for each in changeset.changes:
        gone = each.path if each.status == ChangeStatus.DELETED else each.old_path
        if gone and not is_source(gone):
            yield gone


def _watched(changeset: ChangeSet, touched: Collection[str]) -> frozenset[str]:
    """Return changed files that are no source code, and not named already."""
    return frozenset(
        each.path
        for each in changeset.changes
        if each.status != ChangeStatus.DELETED
        and each.path not in touched
        and not is_source(each.path)
    )


__all__ = ["MOST_LOOKED_AT", "Evidence", "Watch", "deciding_in", "gathered"]
