"""What routing costs: it is asked before every tool call (A9, A19)."""

import itertools

from benchmarks.measuring import measured, median_ms
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.routing import Chain, ExecutionEnvironmentResolver

LEVELS = (None, ExecutionEnvironment.HOST, ExecutionEnvironment.PROCESS)
CHAINS = [
    Chain(tool=tool, plan=plan, project=project, resource=resource)
    for tool, plan, project, resource in itertools.product(LEVELS, repeat=4)
]


@measured("routing of one tool call", target=0.02)
def track_resolution() -> float:
    resolver = ExecutionEnvironmentResolver()

    def resolve_all() -> None:
        for chain in CHAINS:
            resolver.resolve(chain)

    return median_ms(resolve_all, repeats=50) / len(CHAINS)
