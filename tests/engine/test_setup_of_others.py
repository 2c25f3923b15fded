"""What one tree's setup built never enters what another tree, or another repository, gets."""

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import ADD, Worksite, call, done
from patchyard.domain.errors import ModelFailed, ProofFailed, UsageError
from patchyard.domain.events import Noted, SetupFinished
from patchyard.engine import setup as setting_up
from patchyard.engine.replaying import replay
from patchyard.engine.report import plan_data

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.service("bubblewrap"),
    pytest.mark.service("overlay"),
]

SETUP = "sh tools/setup.sh"
CHECKING = """
mkdir -p .venv/bin
printf '#!/bin/sh\\n! grep -q bad new.txt\\n' > .venv/bin/check
chmod +x .venv/bin/check
"""
PASSING = """
mkdir -p .venv/bin
printf '#!/bin/sh\\nexit 0\\n' > .venv/bin/check
chmod +x .venv/bin/check
"""
FILES = {"lib.py": "WHOSE = 'main'\n", "requirements.txt": "six\n", "tools/setup.sh": CHECKING}
BAD = call("write_file", path="new.txt", content="bad\n")


def git(site: Worksite, *words: str) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@localhost")
    subprocess.run(["git", *identity, *words], cwd=site.repository, check=True)


def branch(site: Worksite, name: str, files: dict[str, str]) -> None:
    git(site, "checkout", "-q", "-b", name)
    for path, text in files.items():
        (site.repository / path).parent.mkdir(parents=True, exist_ok=True)
        (site.repository / path).write_text(text)
    git(site, "add", "-A")
    git(site, "commit", "-qm", name)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    made = Worksite.make(tmp_path, FILES)
    yield made
    await made.clear()


async def changed(site: Worksite, *execute: Any, setup: str = SETUP, **options: Any) -> list[str]:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(*execute, setup=(setup,), **options))
        await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    return sorted(file["path"] for file in data["changeset"]["files"])


def finished(site: Worksite) -> list[bool]:
    return [event.is_cached for event in site.heard if isinstance(event, SetupFinished)]


def noted(site: Worksite) -> list[str]:
    return [event.text for event in site.heard if isinstance(event, Noted)]


async def test_a_branchs_setup_neither_works_nor_proves_for_main(site: Worksite) -> None:
    branch(site, "branch", {"tools/setup.sh": PASSING})
    assert await changed(site, BAD, validate=("check",)) == ["new.txt"]
    git(site, "checkout", "-q", "main")
    with pytest.raises(ProofFailed):
        await changed(site, BAD, validate=("check",), rounds=0)
    assert finished(site) == [False, False]


async def test_another_repository_at_the_same_path_gets_a_setup_of_its_own(site: Worksite) -> None:
    await changed(site, ADD)
    site.repository.rename(site.folder / "before")
    Worksite.make(site.folder, {**FILES, "tools/setup.sh": PASSING})
    assert await changed(site, BAD, validate=("check",)) == ["new.txt"]
    assert finished(site) == [False, False]


async def test_what_setup_wrote_over_files_of_the_base_does_not_count_and_is_said(
    tmp_path: Path,
) -> None:
    files = {"lib.py": "of the base\n", "d/a.txt": "a\n", "e/a.txt": "a\n", "f.txt": "f\n"}
    site = Worksite.make(tmp_path, {**files, "gone.txt": "still here\n"})
    setup = (
        "echo of setup > lib.py; rm gone.txt; rm -r d; mkdir d; echo made > d/made;"
        " rm -r e; ln -s /usr e; rm f.txt; mkdir f.txt; echo x > f.txt/x"
    )
    look = (
        "grep -q base lib.py && cat gone.txt d/a.txt d/made e/a.txt f.txt"
        " && test -d .git/objects && touch new.txt"
    )
    gate = f"{look} && rm new.txt"
    ran = call("execute_command", command=look)
    assert await changed(site, ran, setup=setup, validate=(gate,)) == ["new.txt"]
    await site.clear()
    said = "setup changed files of the base, which stay as they are:"
    assert noted(site) == [f"{said} d/a.txt, e, f.txt, gone.txt, lib.py"]


LOCKED = "ls > seen.txt; git log > log.txt 2>&1; mkdir -p made && cp requirements.txt made"


async def test_lock_files_share_a_layer_that_is_made_of_them_alone(site: Worksite) -> None:
    look = call("execute_command", command="cat seen.txt log.txt made/* > new.txt")
    for whose in ("main", "edited"):
        (site.repository / "lib.py").write_text(f"WHOSE = {whose!r}\n")
        await changed(site, look, setup=LOCKED, setup_share="lockfiles")
    (site.repository / "requirements.txt").write_text("six==1\n")
    await changed(site, look, setup=LOCKED, setup_share="lockfiles", apply_to="worktree")
    assert finished(site) == [False, True, False]
    text = (site.repository / "new.txt").read_text()
    assert text.startswith("requirements.txt\n")
    assert "does not have any commits" in text
    assert text.endswith("six==1\n")


async def test_setup_that_fails_on_lock_files_alone_is_told_of_it(site: Worksite) -> None:
    with pytest.raises(setting_up.SetupFailed) as caught:
        await changed(site, setup="test -e lib.py", setup_share="lockfiles")
    assert "`--setup-share tree`" in (caught.value.hint or "")


async def test_a_shared_layer_never_lies_over_a_file_of_another_tree(site: Worksite) -> None:
    setup = "mkdir -p d && echo of setup | tee lib.txt > d/lib.txt"
    look = call("execute_command", command="cat lib.txt d/* > new.txt")
    branch(site, "branch", {"d/base.txt": "of the base\n"})
    await changed(site, look, setup=setup, setup_share="lockfiles")
    assert noted(site) == []
    branch(site, "other", {"d/lib.txt": "of the base\n"})
    check = "grep base d/lib.txt && grep base d/base.txt && grep setup lib.txt"
    await changed(site, look, setup=setup, setup_share="lockfiles", validate=(check,))
    said = [text.partition(":")[2].strip() for text in noted(site)]
    assert said == ["it would lie over files of the base: d/lib.txt", "d/lib.txt"]
    assert finished(site) == [False, False]


async def test_no_repository_decides_what_is_shared(site: Worksite) -> None:
    branch(site, "branch", {".patchyard/config.yaml": "setup_share: lockfiles\n"})
    for text in ("1", "2"):
        (site.repository / "lib.py").write_text(text)
        await changed(site, ADD)
    assert finished(site) == [False, False]
    with pytest.raises(UsageError, match="way to share setup"):
        await changed(site, ADD, setup_share="all")


@pytest.mark.parametrize("is_deleted", [False, True], ids=["found", "made again"])
async def test_a_plan_goes_on_over_the_layer_that_an_earlier_version_named(
    site: Worksite, monkeypatch: pytest.MonkeyPatch, *, is_deleted: bool
) -> None:
    look = call("execute_command", command="cp .venv/bin/check new.txt")
    with monkeypatch.context() as earlier:
        earlier.setattr(setting_up, "FORMAT", 1)
        async with site.open() as (_, workflow):
            plan_id = await site.made(workflow, site.asked(look, setup=(SETUP,), rounds=0))
            site.script([look])
            with pytest.raises(ModelFailed):
                await workflow.run(plan_id)
    (began,) = [event for event in site.heard if isinstance(event, SetupFinished)]
    if is_deleted:
        shutil.rmtree(began.layer)
    site.script([look, done()])

    async with site.open() as (equipment, workflow):
        await workflow.run(plan_id)
        replayed = await replay(equipment, workflow, plan_id)

    assert finished(site) == [False] * (1 + is_deleted)
    assert {event.key for event in site.heard if isinstance(event, SetupFinished)} == {began.key}
    assert replayed.is_same
