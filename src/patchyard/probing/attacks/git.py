"""Traps for the engine's git: it must never run what lies in a tree of the agent's."""

from patchyard.probing.aftermath import borrowed, sprung
from patchyard.probing.attack import Attack, Group, Where


def _trap(name: str, title: str, script: str, where: Where = Where.TREE) -> Attack:
    return Attack(
        name=f"git-{name}",
        group=Group.GIT,
        title=title,
        script=script,
        evidence=sprung,
        where=where,
    )


ATTACKS = (
    _trap("hooks", "have the engine's git run hooks", "hooks"),
    _trap("fsmonitor", "have it ask a program what changed (fsmonitor)", "fsmonitor"),
    _trap("filters", "have it filter files through programs", "filters"),
    _trap("differences", "have it show differences by programs", "differences"),
    _trap("nested", "have it enter an armed nested repository", "nested"),
    _trap("elsewhere", "have it follow a `.git` file to an armed repository", "elsewhere"),
    _trap("shadowed-modules", "have the engine import modules of the tree", "shadow"),
    _trap("armed-checkout", "arm the checkout itself", "armed_checkout", Where.CHECKOUT),
    Attack(
        name="git-alternates",
        group=Group.GIT,
        title="have it borrow objects of a repository outside",
        script="alternates",
        evidence=borrowed,
        where=Where.TREE,
    ),
)

__all__ = ["ATTACKS"]
