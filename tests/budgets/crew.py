"""One process that carries several plans at once; told by JSON on its command line.

`{"environ": ..., "repository": ..., "model": ..., "plans": 5}`, or `"resume"` with the ids of
plans. Prints one JSON list: what each plan ended with.
"""

import asyncio
import json
import sys
from typing import Any

from patchyard.assembly import open_equipment
from patchyard.domain.errors import PatchyardError
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, spec_of


def say(value: Any) -> None:
    """Tell it in one line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def _ended(workflow: Workflow, plan_id: str) -> dict[str, Any]:
    try:
        state = await workflow.run(plan_id)
    except PatchyardError as error:
        said = {"code": error.code, "exit": error.exit_code, "message": error.message}
        return {"plan": plan_id, **said}
    return {"plan": plan_id, "code": str(state.state), "exit": 0, "message": ""}


async def carried(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Carry the plans until each has ended."""
    async with open_equipment(told["environ"]) as equipment:
        workflow = Workflow(equipment)
        plans = told.get("resume") or [
            await workflow.create(spec_of(_asked(told), told["environ"]))
            for _ in range(told["plans"])
        ]
        say(plans)
        return await asyncio.gather(*(_ended(workflow, plan_id) for plan_id in plans))


def _asked(told: dict[str, Any]) -> Asked:
    return Asked(
        task="read on",
        repository=told["repository"],
        model=told["model"],
        kind="process",
        steps=1000,
        validate=("",),
    )


if __name__ == "__main__":
    say(asyncio.run(carried(json.loads(sys.argv[1]))))
