"""Runs seeded suites with the amounts of a soak, on the services that `make test` starts.

What is handed on goes to pytest. The seed is `PATCHYARD_SEED`. One test runs at a time: a soak
holds what is promised in seconds to the second.
"""

import os
import subprocess
import sys

from service_setup import left_out, serving
from tree import ROOT

__all__ = ["main"]


def main() -> int:
    """Pytest's exit code; the seed stands before what it prints and after it."""
    (ROOT / "build").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pytest", "--junitxml=build/soak.xml", "-o"]
    command += ["junit_family=legacy", *sys.argv[1:]]
    with serving(os.environ) as environment:
        left_out(environment)
        environment["PATCHYARD_SOAK"] = "1"
        print(f"seed: {environment.get('PATCHYARD_SEED', 'of each suite')}", flush=True)
        code = subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode
        print(f"seed: {environment.get('PATCHYARD_SEED', 'of each suite')}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
