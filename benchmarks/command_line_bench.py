"""What a person waits for before anything happens."""

import subprocess
import sys
from pathlib import Path

from benchmarks.measuring import measured, median_ms

AGENTS = Path(sys.executable).parent / "agents"


@measured("agents --help", target=150)
def track_agents_help() -> float:
    if not AGENTS.is_file():
        raise NotImplementedError("the package is not installed beside this Python")

    def ask() -> None:
        subprocess.run([AGENTS, "--help"], check=True, stdout=subprocess.DEVNULL)

    return median_ms(ask, repeats=10)
