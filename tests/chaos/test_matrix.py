"""The kill matrix: whoever is killed, whenever, the plan ends as if nothing had happened.

`PATCHYARD_MATRIX` sets how many kills there are at least (a sample in CI, 1,000 in `make soak`),
`PATCHYARD_MATRIX_CONTAINERS` how many of plans in containers, `PATCHYARD_MATRIX_SSH` on a host over
SSH (kills of the engine, and cut connections), `PATCHYARD_SEED` the seed.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chaos.killing import SEED, amount, opened
from chaos.matrix import case, furnish, undisturbed, wrongs
from sshds import SshServer, serving_ssh

KILLS = amount("PATCHYARD_MATRIX", sample=18, soak=1000)
KILLS_IN_CONTAINERS = amount("PATCHYARD_MATRIX_CONTAINERS", sample=6, soak=200)
KILLS_ON_A_HOST = amount("PATCHYARD_MATRIX_SSH", sample=4, soak=200)
SSHD = pytest.mark.service("sshd")
DOCKER = pytest.mark.service("docker")
KILLS_A_PLAN = 4
PLANS_A_CASE = 5
AT_ONCE = 3

pytestmark = [
    pytest.mark.service("bubblewrap"),
    pytest.mark.slow,
    pytest.mark.timeout(900 + 10 * KILLS),
]


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[SshServer | None]:
    """The host of plans that work on one."""
    if request.getfixturevalue("kind") != "ssh":
        yield None
        return
    with serving_ssh() as made:
        yield made


def of_one_case(
    folder: Path, seed: int, kind: str, server: SshServer | None, *, most: int
) -> tuple[list[str], int]:
    """Run one case, then kill it in several plans until there were enough kills.

    Return what was wrong, and how many kills there were.
    """
    found: list[str] = []
    kills = 0
    script = folder / f"script-{seed}.json"
    script.write_text(case(seed).script)
    with opened(folder / f"undisturbed-{seed}") as yard:
        furnish(yard, kind, server)
        tree = undisturbed(yard, script)
    for number in range(PLANS_A_CASE):
        own = seed * 1000 + number
        with opened(folder / str(own)) as yard:
            furnish(yard, kind, server)
            wrong, killed = wrongs(
                yard, script, tree=tree, seed=own, kills=KILLS_A_PLAN, server=server
            )
        found += [f"seed {own}: {text}" for text in wrong]
        kills += killed
        if kills >= most:
            break
    return found, kills


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("process", KILLS),
        pytest.param("container", KILLS_IN_CONTAINERS, marks=DOCKER),
        pytest.param("ssh", KILLS_ON_A_HOST, marks=SSHD),
    ],
)
def test_no_kill_shows_in_what_a_plan_comes_to(
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    kind: str,
    most: int,
    server: SshServer | None,
) -> None:
    found: list[str] = []
    kills, seed = 0, SEED
    at_once = min(AT_ONCE, 1 + most // 12)  # a small sample needs no more cases
    with ThreadPoolExecutor(at_once) as pool:
        while kills < most:
            seeds = range(seed, seed + at_once)
            seed += at_once
            for wrong, killed in pool.map(
                lambda each: of_one_case(tmp_path, each, kind, server, most=most), seeds
            ):
                found += wrong
                kills += killed
    record_property("kills", kills)
    assert found == [], "\n".join((f"{kills} kills, seed {SEED}", *found))
