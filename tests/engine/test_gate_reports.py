"""A report comes out of a toolbox that may lie: its pieces are claims too."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from patchyard.domain.changeset import Base
from patchyard.domain.gates import REPORT_BYTES, Gate, Reads
from patchyard.engine.gate_runs import GateRun, GateRunner
from patchyard.engine.metering import Metered
from patchyard.engine.proof import Prover
from patchyard.validators.sarif import SarifReader

pytestmark = pytest.mark.anyio
CLEAN = b'{"runs": [{"results": []}]}'


class LyingToolbox:
    """Settles commands well and answers for files with whatever it was given."""

    handle = SimpleNamespace(workspace_path="/w")

    def __init__(self, *pieces: Mapping[str, Any]) -> None:
        self.pieces = list(pieces)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    async def call(self, call_id: str, op: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer."""
        del call_id
        self.asked.append((op, args))
        said = {"success": True, "message": "fine", "exit_code": 0, "stdout": "", "stderr": ""}
        if op != "get_file":
            return said
        return {**said, **(self.pieces.pop(0) if len(self.pieces) > 1 else self.pieces[0])}


async def ran(toolbox: LyingToolbox, **gate: Any) -> GateRun:
    class Here:
        async def alone(
            self, _base: Base, _name: str, work: Callable[[Any], Awaitable[GateRun]], *, tree: None
        ) -> GateRun:
            del tree
            return await work(cast("Metered", toolbox))

    made = Gate(name="lint", command="lint", reads=Reads.SARIF, **gate)
    runner = GateRunner(lambda: "call", lambda _: SarifReader())
    return await runner.run(cast("Prover", Here()), cast("Base", None), made, tree=None)


def piece(data: bytes, *, is_last: bool = True) -> dict[str, Any]:
    return {"data": base64.b64encode(data).decode(), "is_last": is_last}


async def test_pieces_are_put_together_in_order_and_an_old_report_goes_first() -> None:
    toolbox = LyingToolbox(piece(CLEAN[:5], is_last=False), piece(CLEAN[5:]))
    found = await ran(toolbox, report="out.sarif")
    assert found.run.is_good
    assert [op for op, _ in toolbox.asked] == [
        *("delete_file", "execute_command", "get_file", "get_file")
    ]
    assert [args.get("offset") for _, args in toolbox.asked[2:]] == [0, 5]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"data": "no base 64!"}, "cannot be taken out"),
        ({"success": False, "message": "gone"}, "there is no report: gone"),
        ({"data": ""}, "it has no `runs`"),
        (piece(b"x" * 4_000_000, is_last=False), f"more than {REPORT_BYTES:,} bytes"),
    ],
)
async def test_what_a_lying_toolbox_hands_over_proves_nothing(
    answer: Mapping[str, Any], problem: str
) -> None:
    found = await ran(LyingToolbox(answer))
    assert not found.run.is_good
    assert problem in found.run.problem
