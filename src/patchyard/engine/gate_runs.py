"""One gate on one tree: its command in a fresh environment, its report taken out and read."""

import asyncio
import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from patchyard.contracts.validator import ReportReader
from patchyard.domain.changeset import Base
from patchyard.domain.gate_findings import Reading, UnreadableReport
from patchyard.domain.gate_verdicts import Run
from patchyard.domain.gates import (
    FINDING,
    PLACEHOLDER,
    REPORT,
    REPORT_BYTES,
    TESTING,
    Gate,
    Reads,
)
from patchyard.engine.metering import Metered
from patchyard.engine.proof import GateResult, Prover, asked, gate_result

NOT_THERE = frozenset({126, 127})  # a shell's exit codes for a program it cannot start
_ABSENT = re.compile(
    r"No module named '?[\w.]+'?$|npx canceled due to missing packages|could not determine"
    r" executable to run|error: no such command: `[\w-]+`",
    re.MULTILINE,
)
# Likewise, without what a tree may lack: a module that is imported, a program that it brings.
_OF_MACHINE = re.compile(
    r"(?:^|[: ])[^\s:/]+: (?:command )?not found$|: No module named [\w.]+$|npx canceled due to"
    r" missing packages|could not determine executable to run|error: no such command: `[\w-]+`",
    re.MULTILINE,
)
# Whose reports are a matter of the tool and of how it is read; those of tests are one of the code.
_OF_TOOLS = frozenset({Reads.JSON, Reads.SARIF, Reads.TEXT})
_SILENT = frozenset({Reads.EXIT, Reads.TIME})  # have no report


@dataclass(frozen=True, kw_only=True)
class GateRun:
    """What a gate's command did on one tree, and what its report says."""

    result: GateResult
    run: Run


class GateRunner:
    """Runs gates of one plan."""

    def __init__(self, new_id: Callable[[], str], reader: Callable[[Reads], ReportReader]) -> None:
        self._new_id = new_id
        self._reader = reader

    async def run(self, prover: Prover, base: Base, gate: Gate, *, tree: str | None) -> GateRun:
        """Run `gate` on `base`, or on `tree` over it. Raises EnvironmentBroken, see Prover."""
        return await prover.alone(base, gate.name, lambda box: self._inside(box, gate), tree=tree)

    async def _inside(self, toolbox: Metered, gate: Gate) -> GateRun:
        command, report = _command(gate)
        runs = []
        for _ in range(gate.repeats):
            if report:  # what lies there now is not of this run
                await asked(toolbox, self._new_id(), "delete_file", path=report)
            answer = await asked(
                toolbox,
                self._new_id(),
                "execute_command",
                timeout_s=gate.timeout_s,
                command=command,
            )
            result = await asyncio.to_thread(gate_result, gate.command, answer)
            run = await self._read(toolbox, gate, result, report)
            runs.append(GateRun(result=result, run=run))
            if not run.is_good:
                break
        return _together(runs)

    async def _read(self, toolbox: Metered, gate: Gate, result: GateResult, report: str) -> Run:
        """Return what the run says; a report that is missing, empty or wrong is a problem."""
        code = result.exit_code
        if problem := _ended_badly(gate, result):
            is_absent = code in NOT_THERE or _ABSENT.search(result.output) is not None
            is_beyond = is_absent and _OF_MACHINE.search(result.output) is not None
            return Run(exit_code=code, problem=problem, is_absent=is_absent, is_beyond=is_beyond)
        if gate.reads in _SILENT:
            return Run(exit_code=code, elapsed=(result.elapsed_s,))
        try:
            reading = await self._reading(toolbox, gate, result, report)
        except UnreadableReport as error:
            is_absent = _ABSENT.search(result.output) is not None
            is_beyond = _OF_MACHINE.search(result.output) is not None or gate.reads in _OF_TOOLS
            return Run(exit_code=code, problem=str(error), is_absent=is_absent, is_beyond=is_beyond)
        return Run(reading=reading, exit_code=code, elapsed=(result.elapsed_s,))

    async def _reading(
        self, toolbox: Metered, gate: Gate, result: GateResult, report: str
    ) -> Reading:
        content = await self._content(toolbox, report)
        if not content.strip() and (gate.report or PLACEHOLDER in gate.command):
            raise UnreadableReport("its report is empty")
        root = toolbox.handle.workspace_path
        read = partial(self._reader(gate.reads).read, root=root)
        reading = await asyncio.to_thread(read, content, gate)  # a large one takes its time
        _require_sense(gate, result, reading)
        return reading

    async def _content(self, toolbox: Metered, report: str) -> bytes:
        """Return the report's bytes. Raises UnreadableReport where there is none."""
        content = bytearray()
        is_last = False
        while not is_last:
            answer = await asked(
                toolbox, self._new_id(), "get_file", path=report, offset=len(content)
            )
            if not answer.success:
                raise UnreadableReport(f"there is no report: {answer.message}")
            try:
                piece = base64.b64decode(str(answer.data.get("data", "")), validate=True)
            except (ValueError, binascii.Error) as error:
                raise UnreadableReport("the report cannot be taken out") from error
            content += piece
            is_last = not piece or bool(answer.data.get("is_last"))
            if len(content) > REPORT_BYTES:
                raise UnreadableReport(f"the report has more than {REPORT_BYTES:,} bytes")
        return bytes(content)


def _command(gate: Gate) -> tuple[str, str]:
    """Return the command line as it is run, and where its report lies; empty: it has none."""
    if PLACEHOLDER in gate.command:
        return gate.command.replace(PLACEHOLDER, REPORT), REPORT
    if gate.reads in _SILENT or gate.report:
        return gate.command, gate.report
    return f"(\n{gate.command}\n) > {REPORT}", REPORT


def _ended_badly(gate: Gate, result: GateResult) -> str:
    """Return why the command's end alone says that it did not do its work; empty when it did."""
    if result.exit_code is None:
        return "its command did not end by itself"
    if result.exit_code in NOT_THERE:
        return "its tool is not there"
    if result.exit_code == 0 and not result.passed:
        return "it ended well, but no test ran, or a limit was hit"
    if gate.reads == Reads.EXIT:
        is_absent = result.exit_code != 0 and _ABSENT.search(result.output) is not None
        return "its tool is not there" if is_absent else ""
    well = gate.exit_codes if gate.reads in FINDING else (0,)
    return "" if result.exit_code in well else f"its command ended with {result.exit_code}"


def _require_sense(gate: Gate, result: GateResult, reading: Reading) -> None:
    """Raise UnreadableReport where the report does not fit how the command ended."""
    if gate.reads in TESTING and not reading.tests and not reading.findings:
        raise UnreadableReport("no test ran: that proves nothing")
    if gate.reads in FINDING and result.exit_code != 0 and not reading.findings:
        raise UnreadableReport(f"its command ended with {result.exit_code} and its report is clean")
    if gate.reads == Reads.COVERAGE and not reading.lines:
        raise UnreadableReport("its report has no line")


def _together(runs: list[GateRun]) -> GateRun:
    """Return repeats as one: the last of them, with the times of all and the middle number."""
    last = runs[-1]
    elapsed = tuple(time for each in runs for time in each.run.elapsed)
    numbers = [each.run.reading.number for each in runs if each.run.reading.number is not None]
    reading = replace(last.run.reading, number=median(numbers)) if numbers else last.run.reading
    return replace(last, run=replace(last.run, elapsed=elapsed, reading=reading))


__all__ = ["NOT_THERE", "GateRun", "GateRunner"]
