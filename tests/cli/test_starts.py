"""What commands load before they begin: nothing that only other commands or some plans need."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

MACHINES = ("patchyard.clients.machine_templates", "patchyard.clients.qemu")
CONTAINERS = (
    "patchyard.clients.containers",
    "patchyard.clients.docker",
    "patchyard.clients.dockerfiles",
    "patchyard.clients.walls",
)
GATEWAYS = (
    "patchyard.clients.gateway_server",
    "patchyard.clients.gateways",
    "patchyard.clients.git_gateway",
    "patchyard.clients.plan_network",
)
HAND_OVER = ("patchyard.workspaces.handover", "patchyard.workspaces.landing")
STUDY = ("patchyard.workspaces.analyst", "patchyard.workspaces.map_making")
LATER = (
    *MACHINES,
    *CONTAINERS,
    *GATEWAYS,
    *HAND_OVER,
    *STUDY,
    "patchyard.engine.trying",
    "tarfile",
)
FOR_ALL_KINDS = {"patchyard.environments.furniture", "patchyard.environments.keeping"}
"""What the janitor asks for what is left of environments."""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-X", "importtime", "-m", "patchyard", *arguments]


def loaded(lines: Iterable[str]) -> set[str]:
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


def too_early(modules: set[str]) -> list[str]:
    kinds = {name for name in modules if name.startswith("patchyard.environments.")}
    return sorted({*modules.intersection(LATER), *(kinds - FOR_ALL_KINDS)})


def begun_worker() -> set[str]:
    """Return what a worker has loaded when it says that it takes plans."""
    words = command("worker", "--name", "early")
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        said = []
        for line in worker.stderr:
            said.append(line)
            if line.startswith("worker early:"):
                break
        worker.terminate()
        worker.communicate()
    assert said[-1].startswith("worker early:"), said[-1]
    return loaded(said)


def refused_run(folder: Path) -> set[str]:
    """Return what a run has loaded when it has opened all it works with and looks at its plan."""
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    words = command("run", "x", "--repo", str(folder), "--in", "bogus")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, "known: container" in done.stderr) == (2, True), done.stderr[-500:]
    return loaded(done.stderr.splitlines())


def test_a_run_begins_without_machines_containers_gateways_and_hand_over(tmp_path: Path) -> None:
    modules = refused_run(tmp_path)
    assert "patchyard.engine.workflow" in modules
    assert too_early(modules) == []
    assert "importlib.metadata" not in modules


def test_a_worker_begins_without_what_its_plans_may_need() -> None:
    modules = begun_worker()
    assert "patchyard.engine.worker" in modules
    assert too_early(modules) == []
    assert "patchyard.intake" not in modules


def test_resources_are_listed_without_the_client_of_container_engines() -> None:
    done = subprocess.run(command("resource", "list"), capture_output=True, text=True, check=True)
    modules = loaded(done.stderr.splitlines())
    assert too_early(modules) == []
    assert not modules & {"patchyard.engine.equipment", "patchyard.configuration"}


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_and_version_load_no_command(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, check=True)
    own = {name for name in loaded(done.stderr.splitlines()) if name.startswith("patchyard")}
    assert own == {"patchyard", "patchyard.cli", "patchyard.cli.interrupts", "patchyard.cli.main"}
