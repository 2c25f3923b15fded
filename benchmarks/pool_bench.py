"""How long a plan waits for the place of its work: started when it is needed, or from the pool.

From the moment when its tree is wanted until its toolbox could take the first call: tree,
environment and journal, as a plan's execute does it. A machine's cold start is in kinds_bench.
"""

import asyncio
import os
import statistics
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.measuring import measured
from benchmarks.yard import Yard, opened
from patchyard.clients.docker import connected, engine_socket
from patchyard.clients.trial_image import trial_image, trial_mounts
from patchyard.contracts.environment import Foreseeing
from patchyard.domain.changeset import Base
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Site
from patchyard.domain.plan import Phase, PlanSpec
from patchyard.domain.pooling import Pooling
from patchyard.domain.resource import Resource
from patchyard.engine.equipment import Equipment
from patchyard.engine.grounds import working_ground
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.places import Places
from patchyard.engine.pool import WarmPool
from patchyard.engine.sites import general_site, image_of, specs_for
from patchyard.engine.wishing import prepared

FILES = 200
LONGEST_S = 120.0  # until a place waits, a machine's by emulation too


def _checkout(yard: Yard) -> Path:
    place = yard.folder / "repo"
    place.mkdir()
    for number in range(FILES):
        (place / f"f{number}.txt").write_text(f"{number}\n" * 20)
    who = ["-c", "user.name=T", "-c", "user.email=t@localhost"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run(["git", *who, *words], cwd=place, check=True)
    return place


async def _spec(kind: ExecutionEnvironment, repository: Path) -> PlanSpec:
    spec = PlanSpec(task="bench", repository=str(repository), environment=str(kind))
    if kind == ExecutionEnvironment.VM:
        return replace(spec, resources=(Resource(name="box", type="vm-image"),), environment="box")
    if kind == ExecutionEnvironment.PROCESS:
        return spec
    name, archive = trial_image("bench")
    async with connected(engine_socket(os.environ)) as engine:
        await engine.load(name, archive)
    box = Resource(name="box", type="container-instance", image=name)
    mounts = tuple(f"{mount.source}:ro" for mount in trial_mounts())
    return replace(spec, resources=(box,), environment="box", mounts=mounts)


async def _wait_ms(equipment: Equipment, spec: PlanSpec, base: Base) -> float:
    """What one plan waits."""
    ledger = await PlanLifecycleService(equipment).create(spec, base=base)
    if isinstance(equipment.pool, WarmPool):
        await prepared(equipment, ledger.state, base)
        async with asyncio.timeout(LONGEST_S):
            while not equipment.pool.waiting:  # noqa: ASYNC110 - a pool tells nobody
                await asyncio.sleep(0.005)
    begun = time.perf_counter()
    async with working_ground(equipment, ledger, base, ()) as workspace:

        async def specs() -> Mapping[Site, EnvironmentSpec]:
            return specs_for(
                equipment,
                ledger.plan_id,
                spec,
                workspace,
                purpose=str(Phase.EXECUTE),
                is_writable=True,
            )

        places = Places(equipment, ledger, specs, str(Phase.EXECUTE))
        await places.find_again()
        await places.toolbox(general_site(spec))
        taken = (time.perf_counter() - begun) * 1000
        await places.end()
    return taken


async def _median_ms(kind: ExecutionEnvironment, *, is_pooled: bool, repeats: int) -> float:
    async with opened() as yard:
        repository = _checkout(yard)
        spec = await _spec(kind, repository)
        adapter = yard.equipment.environment(kind)
        if isinstance(adapter, Foreseeing):
            await adapter.foresee(image=image_of(general_site(spec), spec))
        base = await yard.equipment.trees.snapshot(repository)
        pool = WarmPool(yard.equipment, Pooling(), told=print)
        equipment = replace(yard.equipment, pool=pool if is_pooled else None)
        try:
            taken = [await _wait_ms(equipment, spec, base) for _ in range(repeats + 1)]
        finally:
            await pool.close()
        return statistics.median(taken[1:])


def _measure(kind: ExecutionEnvironment, *, is_pooled: bool, repeats: int = 9) -> float:
    return asyncio.run(_median_ms(kind, is_pooled=is_pooled, repeats=repeats))


@measured("process: a plan's place, started cold")
def track_process_cold() -> float:
    return _measure(ExecutionEnvironment.PROCESS, is_pooled=False)


@measured("process: a plan's place, from the pool", target=3)
def track_process_pooled() -> float:
    return _measure(ExecutionEnvironment.PROCESS, is_pooled=True)


@measured("container: a plan's place, started cold")
def track_container_cold() -> float:
    return _measure(ExecutionEnvironment.CONTAINER, is_pooled=False)


@measured("container: a plan's place, from the pool", target=3)
def track_container_pooled() -> float:
    return _measure(ExecutionEnvironment.CONTAINER, is_pooled=True)


@measured("vm: a plan's place, from the pool")
def track_vm_pooled() -> float:
    return _measure(ExecutionEnvironment.VM, is_pooled=True, repeats=3)
