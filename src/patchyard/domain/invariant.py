"""Invariants: what must stay true, from which scope, and which one wins."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """Where an invariant was declared, from the general to the specific."""

    GLOBAL = "global"
    PROJECT = "project"
    ACTION = "action"
    PLAN = "plan"


RANK = {Scope.GLOBAL: 0, Scope.PROJECT: 1, Scope.ACTION: 2, Scope.PLAN: 2}  # F: actions promote


@dataclass(frozen=True, kw_only=True)
class Invariant:
    """One statement that must hold."""

    invariant_id: str  # ULID, or "action:N" for one written in an action file
    text: str
    scope: Scope
    target: str = ""  # project name, action name or plan id; empty for global
    check: str | None = None  # command that exits 0 while it holds; None: told to the actor only
    non_overridable: bool = False  # a global one that no narrower one may replace


@dataclass(frozen=True, kw_only=True)
class Reconciled:
    """The invariants in force, and those that gave way."""

    effective: tuple[Invariant, ...]
    conflicts: tuple[str, ...] = ()  # one sentence each


def reconcile(invariants: Iterable[Invariant]) -> Reconciled:
    """Keep, of those that say the same, the most specific; a non-overridable one always stays.

    Two invariants say the same when their texts are equal up to case and white space; they are in
    conflict when their checks differ.
    """
    chosen: dict[str, Invariant] = {}
    conflicts = []
    for new in sorted(invariants, key=lambda item: RANK[item.scope]):
        key = " ".join(new.text.casefold().split())
        old = chosen.get(key)
        if old is None:
            chosen[key] = new
            continue
        kept, dropped = (old, new) if old.non_overridable else (new, old)
        chosen[key] = kept
        if kept.check != dropped.check:
            conflicts.append(
                f"{kept.text!r}: the check of {kept.scope} is used, not that of {dropped.scope}"
            )
    return Reconciled(effective=tuple(chosen.values()), conflicts=tuple(conflicts))


__all__ = ["RANK", "Invariant", "Reconciled", "Scope", "reconcile"]
