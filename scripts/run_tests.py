"""The whole suite in one run: behave, Robot Framework, pytest, their coverage together.

Behave and Robot Framework run side by side. Pytest goes last, with a worker for each processor; a
file's tests stay in one worker, since they share what is dear to make. Its closing line is the last
of all. Services are installed and started before (`service_setup.py`), and what is left out is
said in one table. The floor in `ratchet.toml` is that of what ran. It only rises: `--raise-floor`
writes what was measured with all services, `check_ratchet.py` refuses a lower one.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from service_setup import VARIABLES, left_out, serving
from surroundings import cleaned, home
from tree import ROOT

__all__ = ["CLOSING_FILE", "FLOOR_FILE", "floor", "main", "points"]

FLOOR_FILE = ROOT / "scripts/ratchet.toml"
CLOSING_FILE = ROOT / "build/closing-line"
_WORKERS = min(os.cpu_count() or 1, 4)  # each starts places of every kind
SUITES = {
    "behave": ("features", ["behave", "--format", "progress", "--no-capture", "features"]),
    "robot": ("robot", ["robot", "--output", "NONE", "--log", "NONE", "--report", "NONE", "robot"]),
    "unit": ("tests", ["pytest", f"--numprocesses={_WORKERS}", "--dist=loadfile"]),
}
_DATA_SUFFIXES = {"behave": ".feature", "robot": ".robot", "unit": ".py"}


def points(text: str) -> dict[str, float]:
    """What only the tests of a service cover, by the service: percentage points."""
    found: dict[str, float] = tomllib.loads(text).get("left_out", {})
    return found


def floor(text: str, missing: Collection[str] = ()) -> float:
    """The percentage of branch coverage below which a run without these services fails."""
    whole = float(tomllib.loads(text)["coverage_floor"])
    return whole - sum(points(text).get(name, 0) for name in missing)


def _has_tests(suite: str) -> bool:
    folder = ROOT / SUITES[suite][0]
    return any(folder.rglob(f"*{_DATA_SUFFIXES[suite]}"))


def _run(
    suite: str, extra: list[str], environment: dict[str, str], *, is_held: bool = False
) -> tuple[int, str]:
    """Runs one suite; the exit code and the last line said.

    Its output is passed through, or held back to its end where another suite is talking. Pytest
    cleans its environment itself, after it has asked the real one for its services.
    """
    command = [sys.executable, "-m", "coverage", "run", "-m", *SUITES[suite][1], *extra]
    last = ""
    held: list[str] = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as running:
        if running.stdout is None:
            raise RuntimeError(suite)
        for raw in running.stdout:
            line = raw.decode("utf-8", "replace")
            last = line.strip() or last
            if is_held:
                held.append(line)
            else:
                print(line, end="", flush=True)
    print("".join(held), end="", flush=True)
    return running.returncode, last


def _coverage(*arguments: str, environment: dict[str, str]) -> int:
    command = [sys.executable, "-m", "coverage", *arguments]
    return subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode


def _judge(report: Path, missing: Collection[str], *, raise_floor: bool) -> bool:
    """Whether the coverage measured keeps the floor of what ran; says both."""
    totals = json.loads(report.read_text(encoding="utf-8"))["totals"]
    measured = int(float(totals["percent_covered"]) * 10) / 10
    text = FLOOR_FILE.read_text(encoding="utf-8")
    wanted = floor(text, missing)
    print(f"coverage: {measured:.1f} % of lines and branches, floor {wanted:.1f} %")
    if raise_floor and measured > wanted == floor(text):
        FLOOR_FILE.write_text(text.replace(f"{wanted:.1f}", f"{measured:.1f}"), encoding="utf-8")
    return measured >= wanted


def _measure(environment: dict[str, str], missing: Collection[str], *, raise_floor: bool) -> bool:
    """Puts the data of all suites together; reports under build/."""
    build = ROOT / "build"
    if _coverage("combine", "--quiet", environment=environment):
        return False
    _coverage("xml", "--quiet", "-o", str(build / "coverage.xml"), environment=environment)
    _coverage("json", "--quiet", "-o", str(build / "coverage.json"), environment=environment)
    _coverage("report", environment=environment)
    return _judge(build / "coverage.json", missing, raise_floor=raise_floor)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=sorted(SUITES), action="append")
    parser.add_argument("--raise-floor", action="store_true")
    parser.add_argument("extra", nargs="*", help="handed on to the suite, after --")
    return parser.parse_args()


def _run_all(wanted: list[str], options: argparse.Namespace, environment: dict[str, str]) -> int:
    """Runs the suites in an environment that names the services; the exit code of it all."""
    missing = left_out(environment)
    folder = Path(tempfile.mkdtemp(prefix="patchyard-coverage-"))
    # Tests drop to other users, whose subprocesses leave their data here too.
    folder.chmod(0o1777)
    environment = {**environment, "COVERAGE_FILE": str(folder / "data")}
    services = {name: environment[name] for name in VARIABLES if name in environment}
    clean = cleaned(environment) | home(folder / "home") | services
    try:
        with ThreadPoolExecutor() as side_by_side:
            spoken = [suite for suite in wanted if suite != "unit"]
            running = {
                suite: side_by_side.submit(
                    _run, suite, options.extra, clean, is_held=suite != spoken[0]
                )
                for suite in spoken
            }
            results = {suite: run.result() for suite, run in running.items()}
        if "unit" in wanted:
            results["unit"] = _run("unit", options.extra, environment)
        whole = options.only is None and not options.extra
        raised = options.raise_floor
        covered = _measure(environment, missing, raise_floor=raised) if whole else True
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for suite, (code, _last) in results.items():
        print(f"{suite}: {'passed' if code == 0 else f'FAILED, exit {code}'}")
    closing = results[wanted[-1]][1] if wanted else ""
    CLOSING_FILE.write_text(f"{closing}\n", encoding="utf-8")
    print(closing, flush=True)
    return 0 if covered and not any(code for code, _last in results.values()) else 1


def main() -> int:
    """Runs the suites that exist; 0 when all pass and the coverage keeps its floor."""
    options = _options()
    wanted = [suite for suite in SUITES if suite in (options.only or SUITES) and _has_tests(suite)]
    CLOSING_FILE.parent.mkdir(exist_ok=True)
    with serving(os.environ) as environment:
        return _run_all(wanted, options, environment)


if __name__ == "__main__":
    sys.exit(main())
