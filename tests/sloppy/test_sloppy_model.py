"""A sloppy model over many tasks with a real toolbox: each ends well or in a clear state."""

import asyncio
import contextlib
import itertools
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from patchyard.actors.model import ModelActor
from patchyard.clients.toolbox import (
    TOOLBOX_FOLDER,
    ToolboxClient,
    ToolboxOptions,
    bind_listener,
    toolbox_command,
)
from patchyard.contracts.actor import Answered, Brief, Turn, Wanted
from patchyard.contracts.tool import Tool
from patchyard.domain.errors import UsageError
from patchyard.domain.tooling import READ_OUTPUT, ToolResult, output_page, result_from_wire
from patchyard.models.slips import SLIPS
from patchyard.models.sloppy import SloppyModel
from patchyard.tools.shape import OUTPUT_CHARS
from patchyard.tools.toolset import toolset
from sloppy.errands import Task, task

pytestmark = pytest.mark.anyio

SLOW = {"flood", "interactive", "never_ending", "prompting"}  # every fourth model has them too
TURNS_AT_MOST = 24  # the engine's limit of steps, here a small one


class Bench:
    """One toolbox and the tools over it, as the engine would hold them."""

    def __init__(self, workspace: Path, toolbox: ToolboxClient) -> None:
        self.workspace = workspace
        self.tools: dict[str, Tool] = toolset(str(workspace))
        self._toolbox = toolbox
        self._ids = (f"01SLOPPY{number:018}" for number in itertools.count())
        self._kept: dict[str, tuple[Tool, ToolResult]] = {}

    async def answer(self, wanted: Wanted) -> Answered:
        call_id = next(self._ids)
        tool = self.tools.get(wanted.name)
        if tool is None or wanted.arguments is None:
            return self._refused(call_id, wanted, wanted.problem)
        try:
            op, arguments = tool.prepare(wanted.arguments)
        except UsageError as error:
            return self._refused(call_id, wanted, f"{error.message} ({error.hint})")
        if op == READ_OUTPUT:
            payload = self._page(dict(arguments))
        else:
            payload = dict(await self._toolbox.call(call_id, op, arguments))
            await self._toolbox.forget((call_id,))
        result = result_from_wire(call_id, payload)
        self._kept[call_id] = (tool, result)
        text = tool.render(result)
        return Answered(ref=wanted.ref, name=wanted.name, result=result, text=text)

    def _page(self, arguments: dict[str, str]) -> dict[str, object]:
        tool, result = self._kept[arguments["call_id"]]
        return dict(output_page(tool.full(result), offset=int(arguments.get("offset", 0))))

    @staticmethod
    def _refused(call_id: str, wanted: Wanted, words: str) -> Answered:
        result = ToolResult(call_id=call_id, success=False, message=words, error="VALIDATION_ERROR")
        text = f"failed (VALIDATION_ERROR): {words}"
        return Answered(ref=wanted.ref, name=wanted.name, result=result, text=text)


@contextlib.asynccontextmanager
async def bench(folder: Path) -> AsyncIterator[Bench]:
    workspace = folder / "work"
    workspace.mkdir()
    listener, path = bind_listener(folder)
    options = ToolboxOptions(
        listen_fd=listener.fileno(),
        workspace=str(workspace),
        grace_s=20,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(folder)},
    )
    command = toolbox_command(sys.executable, str(TOOLBOX_FOLDER.parent), options)
    with listener:
        process = await asyncio.create_subprocess_exec(
            *command, pass_fds=(listener.fileno(),), start_new_session=True
        )
    try:
        client = await ToolboxClient.connect(path)
        yield Bench(workspace, client)
        await client.end()
        await client.close()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def carry_out(model: SloppyModel, at: Bench) -> tuple[Turn, list[Answered]]:
    brief = Brief(
        plan_id="p",
        phase="execute",
        task="Mend the file",
        workspace_path=str(at.workspace),
        environment="process",
        tools=tuple(tool.spec for tool in at.tools.values()),
    )
    session = await ModelActor(model=model).begin(brief)
    given: list[Answered] = []
    answers: list[Answered] = []
    for _ in range(TURNS_AT_MOST):
        turn = await session.next(answers)
        if turn.is_final:
            return turn, given
        answers = [await at.answer(wanted) for wanted in turn.calls]
        given += answers
    return Turn(is_final=True, failure=f"stopped by the limit of {TURNS_AT_MOST} steps"), given


def sloppy(number: int, made: Task) -> SloppyModel:
    """Every tenth model slips in one way only, and never does the right thing where it applies."""
    if number % 10:
        quick = tuple(kind for kind in SLIPS if kind not in SLOW)
        return SloppyModel(seed=number, errand=made.errand, kinds=quick if number % 4 else [*SLIPS])
    kind = sorted(SLIPS)[number // 10 % len(SLIPS)]
    return SloppyModel(seed=number, errand=made.errand, kinds=(kind,), is_stubborn=True)


def check_helpful(answers: list[Answered]) -> None:
    """Each result has a size that was promised, and a failure says what is wrong."""
    for answer in answers:
        assert answer.text.strip()
        assert len(answer.text) <= 4 * OUTPUT_CHARS
        if not answer.result.success:
            code, _, words = answer.text.partition("): ")
            assert code.startswith("failed (")
            assert len(words.split()) >= 3, answer.text


async def many(numbers: range, folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Carry out many tasks; return how they ended and which slips there were."""
    ends: Counter[str] = Counter()
    slips: Counter[str] = Counter()
    async with bench(folder) as at:
        for number in numbers:
            made = task(number, at.workspace)
            model = sloppy(number, made)
            turn, answers = await carry_out(model, at)
            check_helpful(answers)
            slips += model.slipped
            if turn.failure:
                assert model.is_stubborn, turn.failure
                ends[f"failed: {' '.join(turn.failure.split()[:6])}"] += 1
            else:
                assert turn.summary
                mended = made.file.read_text() == made.mended
                ends["mended" if mended else "ended unmended"] += 1
                assert mended or model.is_stubborn or model.slipped["too_early"], number
    return ends, slips


async def test_sloppy_tasks_end_well_or_in_a_clear_state(tmp_path: Path) -> None:
    ends, slips = await many(range(60), tmp_path)
    assert ends["mended"] >= 54
    assert len(slips) >= 12


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_five_hundred_sloppy_tasks_show_every_kind_of_slip(tmp_path: Path) -> None:
    ends, slips = await many(range(1000, 1500), tmp_path)
    assert sum(ends.values()) == 500
    assert ends["mended"] >= 420
    assert set(slips) == set(SLIPS)
    assert all(count >= 5 for count in slips.values())
