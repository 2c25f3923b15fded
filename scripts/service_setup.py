"""The services that the tests talk to: installed and started by root, ended with the run.

An ordinary user, and `SERVICES=none`, install and start nothing: what the machine has already is
used. Where a step fails it says so, and the tests that need it are left out.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tree import ROOT

__all__ = ["VARIABLES", "end", "is_wanted", "left_out", "said", "serving"]

#: Where services are, and which of them have to be there.
VARIABLES = ("DOCKER_HOST", "PATCHYARD_VM_IMAGE", "REQUIRE_SERVICES")
PACKAGES = (
    *("nodejs", "npm", "docker.io", "podman", "openssh-server", "openssh-client"),
    *("qemu-system-x86", "busybox-static", "runsc", "e2fsprogs", "mount", "iproute2"),
)
#: The devcontainers CLI of a Node below 20 (Debian 12 has 18), and of any newer one.
CLI_VERSIONS = ("0.80.0", "0.89.0")
BUILD = ROOT / "build"
CLI = BUILD / "devcontainers-cli"
#: What pins a gVisor newer than Debian's; a Go that is too old for it refuses to read that.
GVISOR = ROOT / "scripts/gvisor"
ENDING_S = 20


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether services are installed and started; a wrong `SERVICES` ends the run with 2."""
    asked = environment.get("SERVICES", "")
    if asked not in {"", "all", "none"}:
        print(f"SERVICES={asked}: there are all (the default) and none", file=sys.stderr)
        sys.exit(2)
    return asked != "none" and os.geteuid() == 0


def said(*command: str | Path, what: str) -> str:
    """What a command printed; empty, with a word about it, where it failed."""
    try:
        run = subprocess.run(
            [str(word) for word in command],
            check=True,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{what} could not be set up: {error}", file=sys.stderr, flush=True)
        return ""
    return run.stdout.strip()


def left_out(environment: Mapping[str, str]) -> list[str]:
    """The services that are not there; shows them as a table."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as names:
        command = [sys.executable, "scripts/service_table.py", names.name]
        subprocess.run(command, check=True, cwd=ROOT, env=environment)
        return names.read().split()


def _devcontainers_cli() -> Path | None:
    """The folder of the devcontainers CLI, installed below build/ where the PATH has none."""
    programs = CLI / "node_modules/.bin"
    if shutil.which("devcontainer") or not shutil.which("npm"):
        return None
    if not (programs / "devcontainer").exists():
        node = said("node", "--version", what="Node").removeprefix("v").partition(".")[0]
        version = CLI_VERSIONS[int(node or 0) >= 20]
        quiet = ("--silent", "--no-audit", "--no-fund", "--no-save")
        package = f"@devcontainers/cli@{version}"
        said("npm", "install", *quiet, "--prefix", CLI, package, what="the devcontainers CLI")
    return programs


def _current_gvisor() -> str:
    """The program of a gVisor newer than Debian's, where there is a Go that can build it."""
    go = ["go", "-C", str(GVISOR), "list", "-m"]
    known = {**os.environ, "GOTOOLCHAIN": "local"}
    if (
        not shutil.which("go")
        or subprocess.run(go, check=False, capture_output=True, env=known).returncode
    ):
        return ""
    return said("scripts/current_gvisor.sh", BUILD / "gvisor", what="a current gVisor")


def end(folder: Path, *, patience_s: float = ENDING_S) -> None:
    """Ends the container engine whose state lies in the folder, and removes that."""
    with contextlib.suppress(OSError, ValueError):
        engine = int((folder / "pid").read_text(encoding="ascii"))
        os.kill(engine, signal.SIGTERM)
        patience = time.monotonic() + patience_s
        while Path(f"/proc/{engine}").exists() and time.monotonic() < patience:
            time.sleep(0.1)
    mounts = Path("/proc/self/mounts").read_text(errors="surrogateescape").splitlines()
    for place in reversed([line.split()[1] for line in mounts]):
        if place.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", place], check=False)
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def serving(environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The environment with all services that could be had; what was started ends afterwards.

    A container engine or a kernel that the environment names already is taken as it is.
    """
    whole = dict(environment)
    if not is_wanted(environment):
        yield whole
        return
    with ThreadPoolExecutor() as beside:  # the rest waits for the network
        gvisor = beside.submit(_current_gvisor) if not whole.get("DOCKER_HOST") else None
        _install(whole)
    if gvisor is None:
        yield whole
        return
    folder = Path(tempfile.mkdtemp(prefix="patchyard-engine-"))
    runsc = [built] if (built := gvisor.result()) else []
    try:
        if host := said("scripts/start_dockerd.sh", folder, *runsc, what="the container engine"):
            whole["DOCKER_HOST"] = host
        yield whole
    finally:
        end(folder)


def _install(whole: dict[str, str]) -> None:
    """Install what the tests need, and name in the environment where it is."""
    subprocess.run(["scripts/system_packages.sh", sys.executable, *PACKAGES], check=False, cwd=ROOT)
    if programs := _devcontainers_cli():
        whole["PATH"] = os.pathsep.join([str(programs), whole.get("PATH", os.defpath)])
    if not whole.get("PATCHYARD_VM_IMAGE"):
        whole["PATCHYARD_VM_IMAGE"] = said(
            "scripts/guest_kernel.sh", BUILD / "kernel", what="the kernel of virtual machines"
        )
