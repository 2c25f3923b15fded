"""A driver of sessions that really does the calls, in a folder of its own."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from patchyard.actors.recipe import ExecuteStubActor, RecipeSession, StrategizeStubActor
from patchyard.contracts.actor import Answered, Brief, Turn, Wanted
from patchyard.domain.codec import from_json, to_json
from patchyard.domain.globs import matches
from patchyard.domain.tooling import ToolResult

__all__ = ["Hands", "begun", "carried_out", "recipe"]

READING = {"read_file", "search_files", "list_directory"}


class Hands:
    """Carries out tool calls in `root` and remembers them."""

    def __init__(self, root: Path, *, cap: int = 100) -> None:
        self.root = root
        self.cap = cap
        self.calls: list[Wanted] = []

    def answer(self, wanted: Wanted) -> Answered:
        self.calls.append(wanted)
        arguments = wanted.arguments or {}
        try:
            data = getattr(self, f"_{wanted.name}")(**arguments)
        except FileNotFoundError as error:
            data = {"success": False, "error": "FILE_NOT_FOUND", "message": str(error)}
        success = bool(data.pop("success", True))
        result = ToolResult(
            call_id=f"call-{len(self.calls)}",
            success=success,
            message=str(data.pop("message", "done")),
            error=data.pop("error", None),
            data=data,
        )
        return Answered(ref=wanted.ref, name=wanted.name, result=result, text="")

    def names(self) -> list[str]:
        return [wanted.name for wanted in self.calls]

    def _read_file(self, path: str, start_line: int = 1) -> dict[str, Any]:
        body = (self.root / path).read_bytes()
        if b"\0" in body:
            return {"success": False, "error": "BINARY_FILE", "message": "binary"}
        lines = body.decode("utf-8", "surrogateescape").split("\n")
        ends = [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
        page = ends[start_line - 1 : start_line + 999]
        end = start_line + len(page) - 1
        return {
            "content": "".join(page),
            "end_line": end,
            "total_lines": len(ends),
            "size": len(body),
        }

    def _write_file(self, path: str, content: str) -> dict[str, Any]:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(content.encode("utf-8", "surrogateescape"))
        return {}

    def _delete_file(self, path: str) -> dict[str, Any]:
        (self.root / path).unlink(missing_ok=True)
        return {}

    def _search_files(self, query: str) -> dict[str, Any]:
        everything = [str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file()]
        found = sorted(path for path in everything if matches(query, path))
        return {"files": found[: self.cap], "truncated": len(found) > self.cap}

    def _list_directory(self, path: str) -> dict[str, Any]:
        entries = sorted((self.root / path).iterdir())
        return {"contents": [{"name": e.name, "is_directory": e.is_dir()} for e in entries]}

    def _execute_command(
        self, command: str, timeout_s: float = 30.0, cwd: str = "."
    ) -> dict[str, Any]:
        ran = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=self.root / cwd,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        code = ran.returncode
        return {
            "success": code == 0,
            "exit_code": code,
            "stdout": ran.stdout,
            "stderr": ran.stderr,
        }


def recipe(
    *steps: Mapping[str, Any], phase: str = "execute", arguments: Mapping[str, str] | None = None
) -> Brief:
    return Brief(
        plan_id="p",
        phase=phase,
        task="carry out the steps",
        workspace_path="/w",
        environment="process",
        tools=(),
        steps=steps,
        arguments=arguments or {},
    )


async def begun(brief: Brief) -> RecipeSession:
    actor = ExecuteStubActor() if brief.phase == "execute" else StrategizeStubActor()
    return await actor.begin(brief)


async def carried_out(
    brief: Brief, hands: Hands, *, restored: Sequence[tuple[Turn, Sequence[Answered]]] = ()
) -> list[tuple[Turn, Sequence[Answered]]]:
    """Drive a session to its end, after an earlier life; return all turns and their answers."""
    session = await begun(brief)
    lived: list[tuple[Turn, Sequence[Answered]]] = []
    answers: Sequence[Answered] = ()
    try:
        for turn, given in restored:
            body = json.loads(json.dumps(to_json(turn)))  # as the journal keeps it
            await session.restore(from_json(Turn, body), answers)
            answers = given
            lived.append((turn, given))
        while not (lived and lived[-1][0].is_final):
            turn = await session.next(answers)
            answers = [hands.answer(wanted) for wanted in turn.calls]
            lived.append((turn, answers))
    finally:
        await session.close()
    return lived
