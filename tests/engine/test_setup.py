"""Setup commands: run once, kept as a layer that actor and proof share, never a change."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite, call, done
from patchyard.domain.errors import WorkFailed
from patchyard.domain.events import Noted, SetupFinished, ToolCallSettled
from patchyard.engine.report import plan_data

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.service("bubblewrap"),
    pytest.mark.service("overlay"),
]

SETUP = "mkdir -p tools && echo made > tools/gen.txt && chmod 600 tools/gen.txt"
ADD = call("write_file", path="new.txt", content="new\n")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    made = Worksite.make(tmp_path, {"a.txt": "one\n", "requirements.txt": "\n"})
    yield made
    await made.clear()


async def changed(site: Worksite, *execute: Any, setup: str = SETUP, **options: Any) -> list[str]:
    async with site.open() as (equipment, workflow):
        asked = site.asked(*execute, setup=(setup,), **options)
        plan_id = await site.made(workflow, asked)
        await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    return sorted(file["path"] for file in data["changeset"]["files"])


def finished(site: Worksite) -> list[bool]:
    return [event.is_cached for event in site.heard if isinstance(event, SetupFinished)]


async def test_what_setup_wrote_is_there_for_actor_and_proof_and_is_no_change(
    site: Worksite,
) -> None:
    look = call("execute_command", command="grep -q made tools/gen.txt")
    files = await changed(site, look, ADD, validate=("grep -q made tools/gen.txt",))
    assert files == ["new.txt"]
    assert not (site.repository / "tools").exists()


async def test_the_layer_is_found_again_while_all_that_setup_sees_is_the_same(
    site: Worksite,
) -> None:
    await changed(site, ADD)
    await changed(site, ADD)
    (site.repository / "a.txt").write_text("edited\n")
    await changed(site, ADD)
    await changed(site, ADD, setup=f"{SETUP}; true")
    assert finished(site) == [False, True, False, False]


async def test_a_layer_is_made_anew_when_an_interpreter_or_a_variable_is_another(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = site.folder / "toolchain" / "bin" / "node"
    node.parent.mkdir(parents=True)
    node.write_text("#!/bin/sh\necho v1\n")
    node.chmod(0o755)
    monkeypatch.setenv("PATH", f"{node.parent}:{os.environ['PATH']}")
    setup = "mkdir -p tools && node > tools/version.txt"

    async def version() -> str:
        look = call("execute_command", command="cat tools/version.txt && touch new.txt")
        await changed(site, look, setup=setup)
        settled = [e for e in site.heard if isinstance(e, ToolCallSettled)]
        return str(settled[-1].data.value["stdout"])

    assert (await version(), await version()) == ("v1\n", "v1\n")
    node.write_text("#!/bin/sh\necho v2 # upgraded\n")
    assert await version() == "v2\n"
    await changed(site, ADD, setup=setup, variables=("CFLAGS=-O2",))
    assert finished(site) == [False, True, False, False]


async def test_a_file_of_setup_is_a_change_once_the_actor_changes_it(site: Worksite) -> None:
    edit = call("write_file", path="tools/gen.txt", content="edited\n")
    assert await changed(site, edit) == ["tools/gen.txt"]


async def test_a_failing_setup_ends_the_plan_with_its_output_and_keeps_nothing(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        asked = site.asked(ADD, setup=("echo broken >&2; exit 7",))
        plan_id = await site.made(workflow, asked)
        with pytest.raises(WorkFailed, match="ended with 7") as caught:
            await workflow.run(plan_id)
        state = (await site.ledger(equipment, plan_id)).state
    assert "broken" in str(caught.value.details["output"])
    assert state.environments == {}
    assert finished(site) == []


async def test_setup_has_no_network_but_the_gateways(site: Worksite) -> None:
    reach = (
        "python3 -c \"import socket; socket.create_connection(('192.0.2.1', 80), 2)\" && exit 1;"
        ' case "$PIP_INDEX_URL" in http://127.0.0.1:*/pypi/*) true;; *) exit 2;; esac'
    )
    assert await changed(site, ADD, setup=reach) == ["new.txt"]


@pytest.mark.parametrize("kind", ["host", "mock"])
async def test_without_walls_setup_is_passed_over_and_that_is_said(
    site: Worksite, open_folder: Path, kind: str
) -> None:
    site.workspaces = open_folder
    async with site.open() as (_, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, setup=(SETUP,), kind=kind))
        await workflow.run(plan_id)
    assert any(f"not run on {kind}" in e.text for e in site.heard if isinstance(e, Noted))
    await site.clear()


async def test_a_touched_key_file_runs_setup_again_for_the_proof_and_that_is_said(
    site: Worksite,
) -> None:
    setup = "mkdir -p tools && cp requirements.txt tools/installed.txt"
    edit = call("write_file", path="requirements.txt", content="newer\n")
    gate = "grep -q newer tools/installed.txt"
    assert await changed(site, edit, setup=setup, validate=(gate,)) == ["requirements.txt"]
    said = [event.text for event in site.heard if isinstance(event, Noted)]
    assert said == ["setup for the proof: requirements.txt"]


async def test_the_layer_of_a_result_is_not_taken_for_another_base_with_its_key_files(
    site: Worksite,
) -> None:
    edit = call("write_file", path="requirements.txt", content="newer\n")
    also = call("write_file", path="a.txt", content="of the plan\n")
    await changed(site, edit, also)
    (site.repository / "requirements.txt").write_text("newer\n")
    (site.repository / "a.txt").write_text("of the user\n")
    assert await changed(site, ADD, validate=("grep user a.txt",)) == ["new.txt"]


async def test_work_that_breaks_setup_is_sent_back_to_the_actor(site: Worksite) -> None:
    setup = "! grep -q broken requirements.txt"
    broken = call("write_file", path="requirements.txt", content="broken\n")
    mended = call("write_file", path="requirements.txt", content="fine\n")
    files = await changed(site, broken, done("first"), mended, setup=setup)
    assert files == ["requirements.txt"]
    with pytest.raises(WorkFailed, match="setup does not pass on the result"):
        await changed(site, broken, setup=setup, rounds=0)
