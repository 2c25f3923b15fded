"""From options, variables, resources, projects and files to what an environment is started with."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from intake.taking_in import taken
from patchyard.clients.glimpse import glimpse
from patchyard.configuration import repository_files, user_file
from patchyard.domain.codec import from_json
from patchyard.domain.devcontainer import Devcontainer
from patchyard.domain.environment import ExecutionEnvironment, Limits, Site
from patchyard.domain.environment_limits import EnvironmentLimits
from patchyard.domain.errors import UsageError
from patchyard.domain.holdings import Holdings
from patchyard.domain.plan import PlanSpec
from patchyard.domain.project import Project
from patchyard.domain.resource import CONTAINER_INSTANCE, Resource
from patchyard.engine.sites import limits_of

MIB = 1024**2
BOX = Resource(
    name="box",
    type=CONTAINER_INSTANCE,
    image="it",
    limits=EnvironmentLimits(memory=300 * MIB, processes=30),
)
PROCESS = Site(ExecutionEnvironment.PROCESS)
CONTAINER = Site(ExecutionEnvironment.CONTAINER, "box")


def written(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def of_project(top: Path, limits: EnvironmentLimits | None) -> Holdings:
    project = Project(name="p", repository=str(top), environment_limits=limits, resources=("box",))
    return Holdings(projects={"p": project}, resources={"box": BOX})


def test_who_says_it_nearest_to_the_plan_wins(top: Path) -> None:
    written(user_file(os.environ), "environment_limits: {memory: 500M, open_files: 500}\n")
    holdings = of_project(top, EnvironmentLimits(memory=400 * MIB, disk=400 * MIB))
    spec = taken(top, holdings=holdings, kind="box").spec
    there, elsewhere = limits_of(CONTAINER, spec), limits_of(PROCESS, spec)
    assert (there.memory_bytes, elsewhere.memory_bytes) == (300 * MIB, 400 * MIB)
    assert (there.processes, elsewhere.processes) == (30, Limits().processes)
    assert (there.disk_bytes, there.open_files) == (400 * MIB, 500)
    environ = {"PATCHYARD_ENVIRONMENT_LIMITS": "{memory: 200M, processes: 20}"}
    typed = ("memory=100M",)
    spec = taken(top, holdings=holdings, kind="box", limits=typed, environ=environ).spec
    there = limits_of(CONTAINER, spec)
    assert (there.memory_bytes, there.processes) == (100 * MIB, 20)


def test_a_repository_makes_limits_stricter_and_weaker_ones_wait_for_trust(top: Path) -> None:
    written(top / ".patchyard/config.yaml", "environment_limits: {memory: 1G, processes: 9999}\n")
    written(user_file(os.environ), "environment_limits: {memory: 2G}\n")
    found = taken(top)
    limits = limits_of(PROCESS, found.spec)
    assert (limits.memory_bytes, limits.processes) == (1024 * MIB, Limits().processes)
    assert "environment_limits.processes" in found.warnings[0]
    digest = repository_files(glimpse(top, None)).digest
    trusting = Holdings(trusted={str(top): digest})
    limits = limits_of(PROCESS, taken(top, holdings=trusting).spec)
    assert (limits.memory_bytes, limits.processes) == (1024 * MIB, 9999)


NEEDING = Devcontainer(
    path="d", image="i", memory_bytes=3 * 1024 * MIB, storage_bytes=100 * 1024**4, cpus=8.0
)
IN_NEEDING = Site(ExecutionEnvironment.DEVCONTAINER, "needing")


def needing(spec: PlanSpec, own: Devcontainer) -> Limits:
    """What `own` is started with in a plan."""
    return limits_of(IN_NEEDING, replace(spec, devcontainers={"needing": own}))


def test_an_untrusted_devcontainer_can_only_ask_for_less(top: Path) -> None:
    written(user_file(os.environ), "environment_limits: {memory: 128M, disk: 1M, cpus: 0.5}\n")
    spec = taken(top).spec
    got = needing(spec, NEEDING)
    assert (got.memory_bytes, got.disk_bytes, got.cpus) == (128 * MIB, MIB, 0.5)
    got = needing(spec, replace(NEEDING, memory_bytes=64 * MIB, cpus=0.25))
    assert (got.memory_bytes, got.disk_bytes, got.cpus) == (64 * MIB, MIB, 0.25)
    got = needing(spec, replace(NEEDING, is_trusted=True))
    assert (got.memory_bytes, got.disk_bytes, got.cpus) == (3072 * MIB, 100 * 1024**4, 8.0)
    got = needing(taken(top, limits=("memory=96M",)).spec, replace(NEEDING, is_trusted=True))
    assert got.memory_bytes == 96 * MIB


def test_where_nobody_says_a_limit_the_default_bounds_an_untrusted_devcontainer(top: Path) -> None:
    spec = taken(top).spec
    got = needing(spec, replace(NEEDING, memory_bytes=64 * 1024 * MIB))
    usual = Limits()
    assert (got.memory_bytes, got.disk_bytes) == (usual.memory_bytes, usual.disk_bytes)
    assert got.cpus == 8.0  # without a bound on them, so it is one


def test_a_plan_of_before_is_read_as_one_without_trust() -> None:
    kept = {"path": "d", "image": "i", "cpus": 8.0}
    assert from_json(Devcontainer, kept) == replace(NEEDING, memory_bytes=None, storage_bytes=None)


def test_a_mistake_in_a_file_has_its_place(top: Path) -> None:
    written(top / ".patchyard/config.yaml", "environment_limits:\n  memory: 0\n")
    with pytest.raises(UsageError, match=r"config.yaml:2:3: environment_limits.memory: must be"):
        taken(top)


def test_a_mistake_in_a_variable_or_an_option_names_it(top: Path) -> None:
    with pytest.raises(UsageError, match="--limit processes: must be 16 or more"):
        taken(top, limits=("processes=0",))
    environ = {"PATCHYARD_ENVIRONMENT_LIMITS": "{wall: 0s}"}
    with pytest.raises(UsageError, match=r"PATCHYARD_ENVIRONMENT_LIMITS: .*wall: must be 1 s"):
        taken(top, environ=environ)


def test_a_resource_that_says_nothing_leaves_it_to_the_others(top: Path) -> None:
    quiet = replace(BOX, limits=EnvironmentLimits())
    holdings = replace(of_project(top, None), resources={"box": quiet})
    assert limits_of(CONTAINER, taken(top, holdings=holdings, kind="box").spec) == Limits()
