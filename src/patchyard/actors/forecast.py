"""What a recipe will do, told without doing it: the procedure of its strategize phase."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchyard.actors.asking import Asking, Ending, Found, Procedure
from patchyard.actors.procedure import Values
from patchyard.domain.decision import DecisionKind, Proposal
from patchyard.domain.recipe import (
    FILE,
    Fail,
    ForEach,
    Patch,
    Replace,
    Run,
    Step,
    When,
    WriteFile,
)
from patchyard.domain.template import fill, fill_command

SHOWN = 20  # files named of one step


@dataclass
class Forecast:
    """Goes through the steps with reading calls only."""

    asking: Asking = field(default_factory=Asking)
    proposals: list[Proposal] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def whole(self, steps: Sequence[Step], values: Values) -> Procedure[Ending]:
        """Tell what `steps` will do on the tree as it is now."""
        for step in steps:
            problem = yield from self._step(step, values)
            if problem:
                return Ending(failure=f"{step.place}: {problem}")
        summary = "\n".join(self.lines) or "there is nothing to do"
        return Ending(summary=summary, proposals=tuple(self.proposals))

    def _step(self, step: Step, values: Values) -> Procedure[str]:
        does = step.does
        files = does.files if isinstance(does, (Replace, ForEach)) else ""
        found = Found()
        if files:
            found = yield from self.asking.files(fill(files, values))
        if found.problem:
            return found.problem
        choice, rationale = told(does, values), _listed(found) if files else ""
        if step.name and isinstance(does, Replace):  # a pattern says less than its name
            detail, choice = choice, step.name
        else:
            detail, choice = "", f"{step.name}: {choice}" if step.name else choice
        if step.goes_on:
            rationale = f"{rationale}; the work goes on if it fails".removeprefix("; ")
        self.lines.append(
            f"{len(self.lines) + 1}. {choice}{f' ({rationale})' if rationale else ''}"
        )
        because = "; ".join(part for part in (rationale, detail) if part)
        self._propose(step, choice, because, alternatives=_alternatives(does, values))
        return ""

    def _propose(
        self, step: Step, choice: str, rationale: str, *, alternatives: tuple[str, ...]
    ) -> None:
        self.proposals.append(
            Proposal(
                kind=DecisionKind.STRATEGY_CHOICE,
                question=f"what does {step.place} do?",
                choice=choice,
                alternatives=alternatives,
                confidence=1.0 if not alternatives else None,
                rationale=rationale or "declared by the action",
            )
        )


def told(does: object, values: Values) -> str:
    """Return what one step does, in words."""
    return _WORDS[type(does)](does, values)


def _replacing(does: Replace, values: Values) -> str:
    pattern = fill(does.pattern, values, quote=re.escape)
    return f"replace {pattern!r} in {fill(does.files, values)}"


def _looping(does: ForEach, values: Values) -> str:
    inner = _joined(does.steps, {**values, FILE: "FILE"})
    return f"for each FILE of {fill(does.files, values)}: {inner}"


def _choosing(does: When, values: Values) -> str:
    return f"run `{fill_command(does.condition.command, values)}` and choose by its exit code"


_WORDS: Mapping[type[object], Callable[[Any, Values], str]] = {
    Run: lambda does, values: f"run `{fill_command(does.command, values)}`",
    Replace: _replacing,
    WriteFile: lambda does, values: f"write {fill(does.path, values)}",
    Patch: lambda does, _: f"apply a patch to {', '.join(_patched(does.text))}",
    ForEach: _looping,
    When: _choosing,
    Fail: lambda does, values: f"end with: {fill(does.message, values)}",
}


def _joined(steps: Sequence[Step], values: Values) -> str:
    return "; then ".join(told(step.does, values) for step in steps) or "nothing"


def _alternatives(does: object, values: Values) -> tuple[str, ...]:
    if not isinstance(does, When):
        return ()
    codes = " or ".join(str(code) for code in does.exit_codes)
    return (
        f"on {codes}: {_joined(does.then, values)}",
        f"else: {_joined(does.otherwise, values)}",
    )


def _listed(found: Found) -> str:
    if not found.paths:
        return "no file of that name now"
    shown = ", ".join(found.paths[:SHOWN])
    more = len(found.paths) - SHOWN
    count = f"{len(found.paths)} file{'' if len(found.paths) == 1 else 's'} now"
    return f"{count}: {shown}{f' and {more} more' if more > 0 else ''}"


def _patched(text: str) -> list[str]:
    names = re.findall(r"^\+\+\+ (?:b/)?(\S+)", text, re.MULTILINE)
    return names or ["files"]


__all__ = ["SHOWN", "Forecast", "told"]
