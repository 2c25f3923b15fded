"""The devcontainers CLI as a program that may hang, fail, or say something else than expected."""

import asyncio
import os
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from patchyard.clients import bubblewrap, cli_walls, devcontainers_cli
from patchyard.clients.cli_walls import GIVEN, MADE
from patchyard.clients.devcontainers_cli import (
    ASKED_AS,
    CAUSE_CHARS,
    Extending,
    packed,
    steps_for,
)
from patchyard.clients.process import all_processes
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.domain.features import Extension
from toolboxes import until

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

Install = Callable[[str], Mapping[str, str]]
ASKED = Extending(
    config=".devcontainer.json",
    image="base",
    known={"Id": "1", "Config": {"Labels": {"devcontainer.metadata": "[]", "own": "1"}}},
    extension=Extension(text='{"features": {"x": {}}}'),
    archive=None,
)


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Put a script in the place of the CLI, and return the environment that finds it."""

    def put(script: str) -> Mapping[str, str]:
        place = tmp_path / "bin" / "devcontainer"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/sh\n{script}\n")
        place.chmod(0o755)
        path = f"{place.parent}:{os.environ['PATH']}"
        return {"PATH": path, "TOKEN": "secret", "HTTPS_PROXY": "http://a:b@proxy.example"}

    return put


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def sleepers(mark: str) -> list[int]:
    """Processes that still sleep for so long."""
    found = []
    for stat in all_processes():
        try:
            words = Path(f"/proc/{stat.pid}/cmdline").read_bytes()
        except OSError:
            continue
        found += [stat.pid] if mark.encode() in words else []
    return found


async def test_it_sees_one_image_and_nothing_of_the_engines_variables(
    install: Install, folder: Path
) -> None:
    docker = f"{GIVEN}/docker"
    environ = install(
        f"cd {MADE}; env > seen; {docker} -v; {docker} version; {docker} inspect x > image\n"
        'mkdir context; printf "FROM part\\n" > context/Dockerfile\n'
        f"{docker} build -t part {MADE}/context\n"
        f"{docker} build -t {ASKED_AS} --target last --build-arg A=part {MADE}/context\n"
        f"{docker} run x 2>/dev/null || true"
    )
    steps = await steps_for(ASKED, folder, environ)
    assert [step.tag for step in steps] == ["part", ASKED_AS]
    assert (steps[1].arguments, steps[1].target) == ({"A": "part"}, "last")
    assert steps[1].context == folder / "made" / "context"
    seen = (folder / "made" / "seen").read_text()
    assert "TOKEN" not in seen
    assert "PROXY" not in seen
    assert "DOCKER_HOST" not in seen
    image = (folder / "made" / "image").read_text()
    assert image == '[{"Id": "1", "Config": {"Labels": {"own": "1"}}}]'
    archive = folder / "step.tar"
    name = packed(steps[1], {"part": "part-of-this-build"}, archive)
    with tarfile.open(archive) as members:
        content = members.extractfile(name)
        assert content is not None
        assert content.read() == b"FROM part-of-this-build\n"
        assert {member.uid for member in members} == {0}


async def require_lost(environ: Mapping[str, str], folder: Path, words: str) -> None:
    """What the CLI did is refused with these words."""
    with pytest.raises(EnvironmentUnavailable) as lost:
        await steps_for(ASKED, folder, environ)
    assert words in lost.value.message


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 0", "did not say how the features are built"),
        ("exit 3", "cannot install the features: it said nothing"),
        ("echo oh no; exit 1", "cannot install the features: oh no"),
        ("head -c 4000000 /dev/zero; echo; echo 1; exit 1", "cannot install the features: 1"),
        ("head -c 9000 /dev/zero | tr '\\0' x; exit 1", f"the features: {'x' * CAUSE_CHARS}"),
        ("printf '[%.0s' $(seq 3000); exit 1", f"the features: {'[' * CAUSE_CHARS}"),
        ('echo \'{"message": "no such feature"}\'; echo more >&2; exit 1', ": no such feature"),
    ],
)
async def test_what_it_says_last_is_the_cause(
    install: Install, folder: Path, script: str, words: str
) -> None:
    await require_lost(install(script), folder, words)


async def test_when_cancelled_its_whole_tree_ends(install: Install, folder: Path) -> None:
    mark = f"86399.{os.getpid()}"
    environ = install(f"sleep {mark} & echo > {MADE}/up; wait")
    work = asyncio.ensure_future(steps_for(ASKED, folder, environ))
    await until(Path.exists, folder / "made" / "up")
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await until(lambda _: not sleepers(mark), folder)


async def test_it_has_so_long_and_no_longer(
    install: Install, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devcontainers_cli, "CLI_S", 0.05)
    with pytest.raises(EnvironmentUnavailable, match=r"was not done within 0\.05 s"):
        await steps_for(ASKED, folder, install("sleep 60"))


async def test_a_feature_that_asks_for_something_else_by_now_is_refused(
    install: Install, folder: Path, tmp_path: Path
) -> None:
    said = tmp_path / "said.json"
    said.write_text('{"dependsOn": {"elsewhere/x/y": {}}}')
    with tarfile.open(tmp_path / "features.tar", "w") as archive:
        archive.add(said, arcname="a/devcontainer-feature.json")
        archive.add(said, arcname="devcontainer-lock.json")
        archive.add(said, arcname="b/other")
    metadata = {".devcontainer/a/devcontainer-feature.json": "0" * 64}
    asked = replace(
        ASKED,
        config=".devcontainer/devcontainer.json",
        extension=Extension(text="{}", metadata=metadata),
        archive=tmp_path / "features.tar",
    )
    with pytest.raises(EnvironmentUnavailable, match="has changed since the plan was made"):
        await steps_for(asked, folder, install("exit 0"))
    copied = sorted(place.name for place in (folder / "made" / "work").rglob("*.json"))
    assert copied == ["devcontainer-feature.json", "devcontainer-lock.json"]


async def test_it_sees_nothing_of_this_machine_but_programs(
    install: Install, folder: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the user")
    script = f"cat {secret} /proc/net/dev; id -u; touch /usr/x; ls /run /home {MADE}; exit 1"
    with pytest.raises(EnvironmentUnavailable) as lost:
        await steps_for(ASKED, folder, install(script))
    said = str(lost.value.details["output"])
    assert f"{secret}: No such file" in said
    assert [line.split(":")[0].strip() for line in said.splitlines() if "lo:" in line] == ["lo"]
    assert "eth0" not in said
    assert "\n0\n" not in said, "it is not root"
    assert "'/usr/x': Read-only" in said or "'/usr/x': Permission" in said
    assert "/run:\nfeatures\n" in said
    assert f"{MADE}:\ncalls\ndata\nhome\ntmp\nwork" in said


async def test_without_walls_it_is_not_started(
    install: Install, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = install("exit 0")
    monkeypatch.setattr(bubblewrap, "KNOWN_PLACES", ())
    bubblewrap.find_bubblewrap.cache_clear()
    monkeypatch.setenv("PATH", str(folder))
    try:
        with pytest.raises(EnvironmentUnavailable, match="only runs behind walls") as lost:
            await steps_for(ASKED, folder, environ)
    finally:
        bubblewrap.find_bubblewrap.cache_clear()
    assert "apt install bubblewrap" in lost.value.hint


@pytest.mark.parametrize(
    ("does", "words", "within_s"),
    [
        ("echo 'bwrap: no uid map: Permission denied' >&2; exit 1", "do not stand here: ", 60.0),
        ("exec sleep 86398", "was not done within", 0.5),
    ],
)
async def test_walls_that_do_not_come_up_are_told(
    install: Install,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    does: str,
    words: str,
    within_s: float,
) -> None:
    program = folder.parent / "bwrap"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    monkeypatch.setattr(devcontainers_cli, "CLI_S", within_s)
    for module in (devcontainers_cli, cli_walls):
        found = bubblewrap.Bubblewrap(path=str(program), version=(0, 8))
        monkeypatch.setattr(module, "find_bubblewrap", lambda found=found: found)
    with pytest.raises(EnvironmentUnavailable, match=words) as lost:
        await steps_for(ASKED, folder, install("exit 0"))
    assert lost.value.hint
    await until(lambda _: not sleepers("86398"), folder)


async def test_it_takes_no_more_of_this_machine_than_it_may(
    install: Install, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "ulimit -f; ulimit -d; ulimit -u 2>/dev/null || ulimit -p; exit 1"
    with pytest.raises(EnvironmentUnavailable) as lost:
        await steps_for(ASKED, folder, install(script))
    assert str(lost.value.details["output"]).split() == ["2097152", "4194304", "4096"]
    large = folder / "again"
    large.mkdir()
    (step,) = await steps_for(
        ASKED, large, install(f"{CONTEXT}; truncate -s 900M c/holes; {ASKING} {MADE}/c")
    )
    monkeypatch.setattr(devcontainers_cli, "CONTEXT_BYTES", 800 * 1024**2)
    with pytest.raises(EnvironmentUnavailable, match="left more than 838860800 bytes"):
        packed(step, {}, folder / "step.tar")
    assert (folder / "step.tar").stat().st_size < 10**6


CONTEXT = f"cd {MADE}; mkdir -p c/f; echo FROM x > c/Dockerfile; f=c/f/devcontainer-feature.json"
ASKING = f"{GIVEN}/docker build -t {ASKED_AS}"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (f"{ASKING} /etc", "'/etc/Dockerfile', which is none of its"),
        (f"{ASKING} {MADE}/../../etc", "which is none of its own files"),
        (f"ln -s / {MADE}/c; {ASKING} {MADE}/c", "which is none of its own files"),
        (f"{CONTEXT}; {ASKING} -f /etc/passwd {MADE}/c", "'/etc/passwd', which is none of its own"),
        (f"rm -r {MADE}/calls; ln -s /etc {MADE}/calls", "which is none of its own files"),
        (f"ln -s /etc/passwd {MADE}/calls/0", "left no plain file as 0"),
        (f"mkfifo {MADE}/calls/0", "left no plain file as 0"),
        (f": > {MADE}/calls/0", "which is none of its own files"),
        (f"{CONTEXT}; {ASKING} {MADE}/c/Dockerfile", "is no folder to build of"),
        (rf"""{CONTEXT}; echo '{{"id": "a/b"}}' > $f; {ASKING} {MADE}/c""", "is no name of a"),
        (
            rf"""{CONTEXT}; echo '{{"id": "a\u000aRUN x"}}' > $f; {ASKING} {MADE}/c""",
            "is no name of a",
        ),
        (
            rf"""{CONTEXT}; echo '{{"__proto__": {{"id": "a/b"}}}}' > $f; {ASKING} {MADE}/c""",
            "is no name of a",
        ),
        (f"{CONTEXT}; echo '[' > $f; {ASKING} {MADE}/c", "devcontainer-feature.json:"),
    ],
)
async def test_what_it_says_is_a_claim(
    install: Install, folder: Path, script: str, words: str
) -> None:
    await require_lost(install(script), folder, words)
