"""An attack as data, one run of it, and what is ruled about it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from patchyard.domain.environment import ExecutionEnvironment
from patchyard.probing.scene import Group, Scene


class Where(StrEnum):
    """Which place an attack is tried in; those of one place run there at once, or in turn."""

    WORKING = "working"  # a writable workspace, the usual bounds
    BOUNDED = "bounded"  # tight bounds; one after the other
    PLANNING = "planning"  # a workspace to read only
    ENDING = "ending"  # judged after the place has ended; one after the other
    TREE = "tree"  # a workspace of the engine's; judged after capture and hand-over
    CHECKOUT = "checkout"  # arms the user's checkout before the engine looks at it
    ENGINE = "engine"  # against the engine's client, whatever the kind


class Control(StrEnum):
    """How the same is done where nothing protects."""

    PLAIN = "plain"  # a process of the prober's own user
    AGENT = "agent"  # of the agent's user, without walls
    NAMESPACES = "namespaces"  # with all rights in namespaces of its own, for what changes the host


class Order(StrEnum):
    """When the calls of an attack are made."""

    BEFORE = "before"  # its script
    BESIDE = "beside"
    AFTER = "after"


class Verdict(StrEnum):
    """What is ruled about one attack."""

    HELD = "held"
    SUCCEEDED = "SUCCEEDED"
    KNOWN = "known"  # succeeded, and is listed as not stopped by this kind
    NOT_SHOWN = "not shown"  # nobody could do it on this machine, so that nothing is known


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of the toolbox that belongs to an attack."""

    op: str
    args: Mapping[str, Any]  # {names} in texts are filled in with the scene's places
    repeat: int = 1
    call_id: str = ""  # empty: a new one


@dataclass(kw_only=True)
class Run:
    """One run of an attack: its scene and what came of it."""

    scene: Scene
    text: str = ""  # what the script printed
    results: list[Mapping[str, Any]] = field(default_factory=list)  # of calls
    is_broken: bool = False  # the environment, while it ran
    ending: str = ""  # how a broken environment ended, where its kind can tell
    aftermath: Any = None  # of the trees' attacks: what capture and hand-over made of it

    @property
    def has_begun(self) -> bool:
        """Whether the script ran at all."""
        return f"began:{self.scene.token}" in self.text

    @property
    def refusal(self) -> str:
        """What stood in the way, as the attack heard it."""
        lines = [line for line in self.text.splitlines() if line.startswith("refused: ")]
        if lines:
            return lines[-1].removeprefix("refused: ")[:200]
        said = [str(result.get("message", "")) for result in self.results]
        return said[-1][:200] if said else ""


Evidence = Callable[[Run], str]
"""What shows that it succeeded; empty when nothing does."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One attack."""

    name: str
    group: Group
    title: str  # what an agent would do, as a phrase
    evidence: Evidence
    script: str = ""  # a function of the group's scripts; empty: calls alone
    calls: Sequence[Call] = ()
    order: Order = Order.AFTER  # of calls and script
    control: Control = Control.PLAIN
    control_script: str = ""  # another function, where a naive tool stands for ours
    where: Where = Where.WORKING
    has_victim: bool = False
    needs_root: bool = False  # on the prober's side, to plant the bait
    timeout_s: float = 10.0  # of the script; kept short where that is the point
    options: Mapping[str, Any] = field(default_factory=dict)  # for the script


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """The verdict about one attack."""

    attack: str
    group: Group
    title: str
    verdict: Verdict
    is_of_engine: bool = False  # tried without a place of the kind
    note: str = ""  # what was seen, what refused it, or why nothing is shown


@dataclass(frozen=True, kw_only=True)
class Report:
    """All verdicts about a kind."""

    kind: ExecutionEnvironment
    rulings: tuple[Ruling, ...]

    def count(self, verdict: Verdict) -> int:
        """Return how often a verdict was given."""
        return sum(ruling.verdict is verdict for ruling in self.rulings)

    @property
    def has_run(self) -> bool:
        """Whether anything could be tried: a place may have no Python for scripts."""
        return any(r.verdict is not Verdict.NOT_SHOWN for r in self.rulings if not r.is_of_engine)

    @property
    def unlisted(self) -> tuple[Ruling, ...]:
        """Those that succeeded and are not listed."""
        return tuple(r for r in self.rulings if r.verdict is Verdict.SUCCEEDED)


__all__ = [
    "Attack",
    "Call",
    "Control",
    "Evidence",
    "Group",
    "Order",
    "Report",
    "Ruling",
    "Run",
    "Verdict",
    "Where",
]
