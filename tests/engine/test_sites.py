"""What the environments of a plan are shown, by phase."""

import pytest

from engine.worksite import Worksite, call, done

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


async def test_planning_cannot_write_to_a_mount_that_the_work_may_write_to(site: Worksite) -> None:
    shared = site.folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    plan, work = (
        call("execute_command", command=f"touch {shared}/{word}") for word in ("planned", "worked")
    )
    asked = site.asked(work, strategize=[plan, done()], mounts=(f"{shared}:rw",))
    async with site.open() as (_, workflow):
        await workflow.run(await site.made(workflow, asked))
    assert [place.name for place in shared.iterdir()] == ["worked"]


async def test_the_proof_cannot_write_to_a_mount_either(site: Worksite) -> None:
    shared = site.folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    work = call("execute_command", command=f"touch {shared}/worked; echo two > a.txt")
    gate = f"! touch {shared}/proven"
    asked = site.asked(work, mounts=(f"{shared}:rw",), validate=(gate,))
    async with site.open() as (_, workflow):
        await workflow.run(await site.made(workflow, asked))
    assert [place.name for place in shared.iterdir()] == ["worked"]
