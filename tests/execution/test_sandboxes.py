"""The sandbox of CHORUS over every kind: initialize, execute_command, copy_files, cleanup."""

import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from environments.yards import IN_CONTAINERS, marks_of
from execution.backends import KINDS, backed
from execution.premises import Premises, is_there, run_out
from images import WITH_PYTHON, image
from patchyard.domain.environment import Limits
from patchyard.domain.errors import (
    EnvironmentUnavailable,
    GuardRefused,
    UnknownName,
    UsageError,
)
from patchyard.execution import (
    Command,
    EnvironmentLimits,
    ExecutionSandbox,
    Inside,
    NetworkSettings,
    SandboxConfig,
    copying,
)
from patchyard.execution.copying import CopyRefused, copy_in, copy_out

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


def config(kind: str, **further: Any) -> SandboxConfig:
    wanted = image(WITH_PYTHON) if kind in {*IN_CONTAINERS, "docker"} else ""
    return SandboxConfig(**{"kind": kind, "image": wanted, **further})


@pytest.fixture(params=KINDS)
async def sandbox(
    request: pytest.FixtureRequest, premises: Premises
) -> AsyncIterator[ExecutionSandbox]:
    del premises
    with backed(request.param) as named:
        async with ExecutionSandbox(SandboxConfig(**named, variables={"MINE": "yes"})) as made:
            yield made


async def test_the_whole_of_it(sandbox: ExecutionSandbox, premises: Premises) -> None:
    given = premises.folder / "given.txt"
    given.write_text("given\n")
    assert (await sandbox.copy_files(given, Inside("in/given.txt"))).success
    said = await sandbox.execute_command("tr a-z A-Z < in/given.txt > out.txt; echo $MINE")
    assert (said.success, said.stdout) == (True, "yes\n")
    taken = premises.folder / "taken/out.txt"
    copied = await sandbox.copy_files(Inside("out.txt"), taken)
    assert (copied.success, copied.files, copied.bytes_copied) == (True, 1, 6)
    assert taken.read_text() == "GIVEN\n"
    assert (await sandbox.tools.read_file("out.txt")).content == "GIVEN\n"
    place = Path(sandbox.workspace_path)
    for _ in range(2):
        assert (await sandbox.cleanup()).success
    assert not is_there(place)


async def test_words_are_read_by_no_shell(sandbox: ExecutionSandbox) -> None:
    words = ("printf", "%s.", "$(touch ran)", "; touch ran", "it's", "a b", "")
    said = await sandbox.execute_command(Command(line=words))
    assert said.stdout == "$(touch ran).; touch ran.it's.a b.."
    assert [each.name for each in (await sandbox.tools.list_directory()).contents] == []


async def test_a_command_has_its_folder_variables_and_time(sandbox: ExecutionSandbox) -> None:
    await sandbox.tools.write_file("sub/a", "")
    hangs = "pwd; echo $NAME; echo so > told; sleep 300"
    asked = Command(line=hangs, cwd="sub", env={"NAME": "x"})
    said = await run_out(
        lambda s: sandbox.execute_command(replace(asked, timeout_s=s)), sandbox.tools, "sub/told"
    )
    assert (said.error, said.stdout) == ("TIMEOUT", f"{sandbox.workspace_path}/sub\nx\n")
    job = await sandbox.execute_command(Command(line="sleep 300", background=True))
    assert (await sandbox.tools.job_kill(job.job_id)).signal == "SIGKILL"


async def test_a_tree_travels_in_and_out_as_it_is_but_for_links(
    sandbox: ExecutionSandbox, premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PIECE_BYTES", 1000)
    source = premises.folder / "source"
    (source / "deep/empty").mkdir(parents=True)
    (source / "deep/program").write_text("#!/bin/sh\necho ran\n")
    (source / "deep/program").chmod(0o755)
    (source / "build").mkdir()
    (source / "build/any.bin").write_bytes(bytes(range(256)) * 20)
    (source / "nothing").write_bytes(b"")
    (source / "whole.bin").write_bytes(b"\0" * 2000)
    (source / os.fsdecode(b"odd \xff\nname")).write_text("odd")
    (source / "link").symlink_to("/etc/passwd")
    os.mkfifo(source / "fifo")
    into = await sandbox.copy_files(str(source), Inside("."))
    assert (into.success, into.files, into.skipped) == (True, 5, ("fifo", "link"))
    assert (await sandbox.execute_command("deep/program")).stdout == "ran\n"
    back = premises.folder / "back"
    out = await sandbox.copy_files(Inside(), back)
    assert (out.success, out.files, out.bytes_copied) == (True, 5, into.bytes_copied)
    kept = {name: what for name, what in seen(source).items() if name not in into.skipped}
    assert seen(back) == kept


def seen(folder: Path) -> Mapping[str, tuple[bytes | None, bool]]:
    found = {}
    for each in folder.rglob("*"):
        content = each.read_bytes() if each.is_file() and not each.is_symlink() else None
        is_program = each.is_file() and bool(each.stat().st_mode & 0o100)
        found[str(each.relative_to(folder))] = (content, is_program)
    return found


async def test_what_the_sandbox_made_leads_nowhere_when_it_is_copied_out(
    sandbox: ExecutionSandbox, premises: Premises
) -> None:
    outside = premises.folder / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    back = premises.folder / "back"
    (back / "real").mkdir(parents=True)
    (back / "folder").symlink_to(outside)
    (back / "file").symlink_to(outside / "kept")
    (back / "busy").mkdir()
    await sandbox.execute_command(
        "mkdir folder real; echo bad > folder/kept; echo bad > file; echo bad > busy;"
        f" ln -s {outside} link; ln -s {outside}/kept real/link; echo good > real/good; mkfifo pipe"
    )
    out = await sandbox.copy_files(Inside("."), back)
    assert out.success
    left_out = ["busy", "file", "folder", "link", "pipe", "real/link"]
    assert sorted(out.skipped) == [f"./{name}" for name in left_out]
    assert (outside / "kept").read_text() == "kept"
    assert (back / "real/good").read_text() == "good\n"
    for path in (f"{outside}/kept", "../outside", "link/kept"):
        refused = await sandbox.copy_files(Inside(path), premises.folder / "stolen")
        assert (refused.success, refused.error) == (False, "PATH_OUTSIDE_WORKSPACE")
        assert not (premises.folder / "stolen").exists()
        written = await sandbox.copy_files(outside / "kept", Inside(path))
        assert written.error == "PATH_OUTSIDE_WORKSPACE"


async def test_what_cannot_be_copied_is_a_result(
    sandbox: ExecutionSandbox, premises: Premises
) -> None:
    missing = await sandbox.copy_files(premises.folder / "none", Inside("a"))
    assert (missing.success, missing.error, missing.files) == (False, "IO_ERROR", 0)
    gone = await sandbox.copy_files(Inside("none"), premises.folder / "a")
    assert (gone.error, (premises.folder / "a").exists()) == ("DIRECTORY_NOT_FOUND", False)
    for pair in ((premises.folder, premises.folder), (Inside("a"), Inside("b"))):
        with pytest.raises(UsageError, match="one of"):
            await sandbox.copy_files(*pair)


async def test_a_named_workspace_stays_when_the_sandbox_goes(premises: Premises) -> None:
    workspace = premises.workspace()
    sandbox = ExecutionSandbox()
    await sandbox.initialize(config("process", workspace=str(workspace)))
    await sandbox.initialize()  # it runs already
    assert sandbox.workspace_path == str(workspace)
    await sandbox.execute_command("echo new > new.txt")
    assert (await sandbox.cleanup()).success
    assert (workspace / "new.txt").read_text() == "new\n"


async def test_a_read_only_one_takes_nothing(premises: Premises) -> None:
    workspace = premises.workspace()
    (workspace / "there").write_text("there\n")
    wanted = config("process", workspace=str(workspace), is_writable=False)
    async with ExecutionSandbox(wanted) as box:
        assert (await box.copy_files(workspace / "there", Inside("new"))).error == "READ_ONLY"
        assert not (await box.execute_command("touch new")).success
        assert (await box.copy_files(Inside("there"), premises.folder / "copy")).success


async def test_limits_hold(premises: Premises) -> None:
    del premises
    limited = config("process", limits=Limits(file_bytes=1000))
    async with ExecutionSandbox(limited) as sandbox:
        said = await sandbox.execute_command("head -c 5000 /dev/zero > big; stat -c %s big")
        assert said.stdout == "1000\n"


@pytest.mark.parametrize("kind", ["pod", "nonsense"])
async def test_a_kind_that_is_not_here_is_named(premises: Premises, kind: str) -> None:
    del premises
    with pytest.raises(UnknownName, match=kind) as refused:
        await ExecutionSandbox(SandboxConfig(kind=kind)).initialize()
    assert "process" in refused.value.hint


@pytest.mark.service("docker")
async def test_docker_is_a_container_and_needs_an_image(premises: Premises) -> None:
    del premises
    for kind in ("docker", "devcontainer"):
        with pytest.raises(UsageError, match="a container needs an image"):
            await ExecutionSandbox(SandboxConfig(kind=kind)).initialize()
    with pytest.raises(EnvironmentUnavailable, match="no image"):
        await ExecutionSandbox(SandboxConfig(kind="docker", image="none:0")).initialize()
    async with ExecutionSandbox(config("docker")) as sandbox:
        assert (await sandbox.execute_command("test -e /.dockerenv")).success


async def test_a_workspace_that_is_not_there_is_refused(premises: Premises) -> None:
    missing = str(premises.folder / "none")
    with pytest.raises(UsageError, match="no folder"):
        await ExecutionSandbox(config("process", workspace=missing)).initialize()


async def test_one_that_was_not_initialized_says_so(premises: Premises) -> None:
    sandbox = ExecutionSandbox()
    for asking in (sandbox.execute_command("true"), sandbox.copy_files(premises.folder, Inside())):
        with pytest.raises(GuardRefused, match="not initialized"):
            await asking
    with pytest.raises(GuardRefused):
        assert sandbox.workspace_path
    assert (await sandbox.cleanup()).success


class Liar:
    """A sandbox's side of a copy that answers as it was told."""

    def __init__(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        self._answers = answers

    async def __call__(self, op: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        said = self._answers.get(f"{op} {args['path']}") or self._answers[op]
        return {"success": True, **said}


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "/etc/x", "a\0b", 7, None])
async def test_a_name_that_leads_elsewhere_ends_the_copy(premises: Premises, name: object) -> None:
    liar = Liar({"list_directory": {"contents": [{"name": name, "type": "file"}]}})
    with pytest.raises(CopyRefused) as refused:
        await copy_out(liar, ".", premises.folder / "back")
    assert refused.value.said == "UNSAFE_NAME"
    assert list((premises.folder / "back").iterdir()) == []


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"list_directory": {"contents": [], "truncated": True}}, "TOO_MUCH"),
        ({"list_directory": {"contents": [{"name": "a", "type": "directory"}]}}, "TOO_MUCH"),
        ({"list_directory": {"success": False, "error": 7}}, "UNKNOWN_ERROR"),
        (
            {
                "list_directory": {"contents": [{"name": "a", "type": "file"}]},
                "get_file": {"data": "AAAA", "is_last": False},
            },
            "TOO_MUCH",
        ),
        (
            {
                "list_directory": {"contents": [{"name": "a", "type": "file"}]},
                "get_file": {"data": "no base 64!"},
            },
            "UNKNOWN_ERROR",
        ),
    ],
)
async def test_a_liar_is_bounded(
    premises: Premises,
    monkeypatch: pytest.MonkeyPatch,
    answers: Mapping[str, Mapping[str, Any]],
    code: str,
) -> None:
    monkeypatch.setattr(copying, "MOST_BYTES", 1000)
    with pytest.raises(CopyRefused) as refused:
        await copy_out(Liar(answers), ".", premises.folder / "back")
    assert refused.value.said == code


async def test_what_lies_in_the_way_is_left_out_and_what_the_machine_refuses_is_raised(
    premises: Premises,
) -> None:
    back = premises.folder / "back"
    back.mkdir()
    os.mkfifo(back / "pipe")
    reader = os.open(back / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    answers: dict[str, Mapping[str, Any]] = {
        "list_directory": {"contents": [{"name": "pipe", "type": "file"}]},
        "get_file": {"data": "AAAA", "is_last": True},
    }
    try:
        copied = await copy_out(Liar(answers), ".", back)
    finally:
        os.close(reader)
    assert (copied.files, copied.skipped) == (0, ("./pipe",))
    answers["list_directory"] = {"contents": [{"name": "x" * 300, "type": "file"}]}
    with pytest.raises(OSError, match="too long"):
        await copy_out(Liar(answers), ".", back)


async def test_no_bytes_and_no_list_come_to_nothing(premises: Premises) -> None:
    one = {"list_directory": {"contents": [{"name": "a", "type": "file"}]}, "get_file": {}}
    assert (await copy_out(Liar(one), ".", premises.folder / "b")).bytes_copied == 0
    no_list = Liar({"list_directory": {"contents": 7}})
    assert (await copy_out(no_list, ".", premises.folder / "c")).files == 0


async def test_what_is_too_much_is_not_copied_in(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    (premises.folder / "big").write_bytes(b"x" * 1001)
    monkeypatch.setattr(copying, "MOST_BYTES", 1000)
    with pytest.raises(CopyRefused):
        await copy_in(Liar({"put_file": {}}), premises.folder / "big", "big")
    deep = premises.folder / "deep"
    place = deep
    for _ in range(6):
        place = place / "d"
    place.mkdir(parents=True)
    monkeypatch.setattr(copying, "MAX_DEPTH", 3)
    with pytest.raises(CopyRefused, match="deep"):
        await copy_in(Liar({"put_file": {}}), deep, ".")


async def test_a_disk_that_is_full_is_no_link_in_the_way(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object, **_options: object) -> int:
        raise OSError(28, "No space left on device")

    answers: Mapping[str, Mapping[str, Any]] = {
        "list_directory": {"contents": [{"name": "a", "type": "file"}]},
        "get_file": {"data": "AAAA", "is_last": True},
    }
    monkeypatch.setattr(copying, "_write", full)
    with pytest.raises(OSError, match="No space"):
        await copy_out(Liar(answers), ".", premises.folder / "back")


@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=marks_of(each)) for each in ("process", "container")]
)
async def test_further_places_are_shown_as_they_say(kind: str, premises: Premises) -> None:
    shown = premises.folder / "shown"
    shown.mkdir()
    (shown / "told").write_text("shown")
    with backed(kind) as named:
        wanted = SandboxConfig(**named, mounts=(f"{shown}:ro",))
        async with ExecutionSandbox(wanted) as made:
            assert (await made.execute_command(f"cat {shown}/told")).stdout == "shown"
            assert not (await made.execute_command(f"echo x > {shown}/made")).success
    assert not (shown / "made").exists()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"image": "a:1"}, "process takes no image"),
        ({"address": "far"}, "process takes no address"),
        ({"secrets": ("A@b",)}, "a sandbox alone has no gateway"),
        ({"network": NetworkSettings(allow_hosts=("a",))}, "a sandbox alone has no gateway"),
        ({"mounts": ("/",)}, "/ is refused"),
        ({"limits": EnvironmentLimits(memory=5)}, "must be 32 MiB or more"),
    ],
    ids=lambda each: str(each)[:30],
)
async def test_what_a_sandbox_alone_cannot_have_is_refused_and_leaves_nothing(
    fields: Mapping[str, Any], said: str, premises: Premises
) -> None:
    del premises
    with pytest.raises(UsageError) as caught:
        await ExecutionSandbox(SandboxConfig(**fields)).initialize()
    assert said in caught.value.message
    assert caught.value.hint
