"""Carrying out the steps of a recipe, as generators that ask for calls and do nothing else."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from patchyard.actors.asking import Asking, Ending, Procedure
from patchyard.clients.substitution import Substitution
from patchyard.contracts.actor import Answered
from patchyard.domain.errors import UsageError
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

REPORTED_CHARS = 1500  # of a failed command's output
SHOWN_CHARS = 60  # of a pattern
REPORTED_LINES = 200  # of the summary

Values = Mapping[str, str]


class StepFailed(Exception):
    """A step did not do what it says; its message is for people."""


@dataclass
class Execution:
    """One way through a recipe. What it did is told in `done`, one line a step."""

    asking: Asking = field(default_factory=Asking)
    done: list[str] = field(default_factory=list)

    def whole(self, steps: Sequence[Step], values: Values) -> Procedure[Ending]:
        """Carry out `steps` in order; the first that fails ends it, unless it says `continue`."""
        try:
            yield from self._each(steps, values)
        except StepFailed as failed:
            return Ending(summary=self._report(), failure=str(failed))
        return Ending(summary=self._report())

    def _report(self) -> str:
        shown = self.done[:REPORTED_LINES]
        left = len(self.done) - len(shown)
        return "\n".join([*shown, *([f"... and {left} more"] if left else [])]) or "nothing to do"

    def _each(self, steps: Sequence[Step], values: Values) -> Procedure[None]:
        for step in steps:
            began = len(self.done)
            try:
                yield from self._step(step, values)
                if step.name:
                    self.done[began:] = [f"{step.name}: {line}" for line in self.done[began:]]
            except (StepFailed, UsageError) as failed:
                about = f"{step.place}{f' ({step.name})' if step.name else ''}"
                said = f"{about}: {failed}" if not str(failed).startswith("steps[") else str(failed)
                if not step.goes_on:
                    raise StepFailed(said) from failed
                self.done.append(f"went on although {said}")

    def _step(self, step: Step, values: Values) -> Procedure[None]:
        does = step.does
        if isinstance(does, Run):
            yield from self._run(does, values)
        elif isinstance(does, Replace):
            yield from self._replace(does, values, is_named=bool(step.name))
        elif isinstance(does, WriteFile):
            yield from self._write(does, values)
        elif isinstance(does, Patch):
            yield from self._patch(does)
        elif isinstance(does, ForEach):
            yield from self._loop(does, values)
        elif isinstance(does, When):
            yield from self._choose(does, values)
        elif isinstance(does, Fail):
            raise StepFailed(fill(does.message, values))

    def _run(self, run: Run, values: Values) -> Procedure[None]:
        answer = yield from self._command(run, values)
        command = fill_command(run.command, values)
        if not answer.result.success:
            raise StepFailed(f"`{command}` {_how_it_ended(answer)}")
        self.done.append(f"ran `{command}`")

    def _command(self, run: Run, values: Values) -> Procedure[Answered]:
        command = fill_command(run.command, values)
        arguments: dict[str, object] = {"command": command, "timeout_s": run.timeout_s}
        if run.cwd:
            arguments["cwd"] = fill(run.cwd, values)
        return (yield from self.asking.one("execute_command", f"run {command}", **arguments))

    def _replace(self, replace: Replace, values: Values, *, is_named: bool) -> Procedure[None]:
        paths = yield from self._named(replace.files, values)
        pattern = fill(replace.pattern, values, quote=re.escape)
        count, changed = 0, 0
        for start in range(0, len(paths), 20):  # so that few texts are held at once
            some = paths[start : start + 20]
            texts = yield from self._texts(some)
            edits = []
            for path, text in zip(some, texts, strict=True):
                if text is None:
                    continue
                new, matched = yield from self._replaced(replace, pattern, values, text)
                count += matched
                if new != text:
                    edits.append({"path": path, "content": new})
            changed += len(edits)
            answers = yield from self.asking.many("write_file", edits, f"replace {pattern}")
            _require(answers)
        if replace.required and not count:
            raise StepFailed(f"{pattern!r} matches nothing in {fill(replace.files, values)}")
        told = f"replaced {count} in {changed} of {len(paths)} files"
        shown = f"{pattern[:SHOWN_CHARS]!r}{'...' if len(pattern) > SHOWN_CHARS else ''}"
        self.done.append(told if is_named else f"{told}: {shown}")

    def _replaced(
        self, replace: Replace, pattern: str, values: Values, text: str
    ) -> Procedure[tuple[str, int]]:
        has_cr = "\r\n" in text and text.count("\r\n") == text.count("\n")
        flags = re.MULTILINE
        flags |= re.IGNORECASE if replace.ignore_case else 0
        flags |= re.DOTALL if replace.dot_all else 0
        done = yield from self.asking.substitution(
            Substitution(
                text=text.replace("\r\n", "\n") if has_cr else text,
                pattern=pattern,
                replacement=fill(replace.replacement, values, quote=_literal),
                flags=int(flags),
            )
        )
        if done.problem:
            raise StepFailed(f"the pattern {pattern!r} failed: {done.problem}")
        new = done.text.replace("\r\n", "\n").replace("\n", "\r\n") if has_cr else done.text
        return (new, done.count) if done.count else (text, 0)

    def _texts(self, paths: Sequence[str]) -> Procedure[list[str | None]]:
        """Read whole files, None for one that is no text."""
        asked = [{"path": path} for path in paths]
        answers = yield from self.asking.many("read_file", asked, f"read {len(paths)} files")
        texts: list[str | None] = []
        for path, answer in zip(paths, answers, strict=True):
            if answer.result.error == "BINARY_FILE":
                texts.append(None)
                continue
            _require([answer])
            texts.append((yield from self._rest(path, answer)))
        return texts

    def _rest(self, path: str, answer: Answered) -> Procedure[str]:
        parts = []
        while True:
            _require([answer])
            data = answer.result.data
            parts.append(str(data.get("content", "")))
            end, total = data.get("end_line"), data.get("total_lines")
            if not isinstance(end, int) or not isinstance(total, int) or end >= total:
                break
            answer = yield from self.asking.one("read_file", path=path, start_line=end + 1)
        text = "".join(parts)
        size = data.get("size")
        if isinstance(size, int) and size != len(text.encode("utf-8", "surrogateescape")):
            raise StepFailed(f"{path} could not be read whole (a line too long, or it changed)")
        return text

    def _write(self, write: WriteFile, values: Values) -> Procedure[None]:
        path = fill(write.path, values)
        content = fill(write.content, values)
        answer = yield from self.asking.one(
            "write_file", f"write {path}", path=path, content=content
        )
        _require([answer])
        self.done.append(f"wrote {path}")

    def _patch(self, patch: Patch) -> Procedure[None]:
        name = f".patchyard-{hashlib.sha256(patch.text.encode()).hexdigest()[:12]}.patch"
        text = patch.text if patch.text.endswith("\n") else f"{patch.text}\n"
        written = yield from self.asking.one("write_file", path=name, content=text)
        _require([written])
        command = f"git apply --whitespace=nowarn {name}"
        answer = yield from self.asking.one("execute_command", "apply a patch", command=command)
        yield from self.asking.one("delete_file", path=name)
        if not answer.result.success:
            raise StepFailed(f"the patch does not apply: it {_how_it_ended(answer)}")
        self.done.append("applied a patch")

    def _loop(self, loop: ForEach, values: Values) -> Procedure[None]:
        paths = yield from self._named(loop.files, values)
        self.done.append(f"for each of {len(paths)} files: {fill(loop.files, values)}")
        for path in paths:
            yield from self._each(loop.steps, {**values, FILE: path})

    def _choose(self, when: When, values: Values) -> Procedure[None]:
        answer = yield from self._command(when.condition, values)
        code = answer.result.data.get("exit_code")
        if not isinstance(code, int) or isinstance(code, bool):
            command = fill_command(when.condition.command, values)
            raise StepFailed(f"`{command}` {_how_it_ended(answer)}")
        self.done.append(f"`{fill_command(when.condition.command, values)}` ended with {code}")
        chosen = when.then if code in when.exit_codes else when.otherwise
        yield from self._each(chosen, values)

    def _named(self, template: str, values: Values) -> Procedure[Sequence[str]]:
        if template == f"{{{FILE}}}":
            return [values[FILE]]  # a path, not a glob, whatever characters it holds
        found = yield from self.asking.files(fill(template, values))
        if found.problem:
            raise StepFailed(f"the files cannot be listed: {found.problem}")
        if found.unreadable:
            folders = "1 closed folder was" if found.unreadable == 1 else "closed folders were"
            count = "" if found.unreadable == 1 else f"{found.unreadable} "
            self.done.append(f"{count}{folders} passed over: {fill(template, values)}")
        return found.paths


def _require(answers: Sequence[Answered]) -> None:
    for answer in answers:
        if not answer.result.success:
            raise StepFailed(answer.result.message or f"{answer.name} failed")


def _literal(value: str) -> str:
    return value.replace("\\", "\\\\")


def _how_it_ended(answer: Answered) -> str:
    data = answer.result.data
    code = data.get("exit_code")
    how = f"ended with {code}" if isinstance(code, int) else answer.result.message or "failed"
    if answer.result.error == "TIMEOUT":
        how = answer.result.message or "took too long"
    output = "\n".join(str(data.get(key, "")).strip() for key in ("stdout", "stderr")).strip()
    return f"{how}\n{output[-REPORTED_CHARS:]}" if output else how


__all__ = ["REPORTED_CHARS", "REPORTED_LINES", "SHOWN_CHARS", "Execution", "StepFailed", "Values"]
