"""`make bench-peers`: installs the contenders, runs them one after the other, prints the table.

Rounds are interleaved, so that what else the machine does falls on all; figures are medians. One
that cannot be installed or fails says so below the table and the rest goes on.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.peers import process_tree
from benchmarks.peers.contenders import CONTENDERS, DRIVERS, Contender
from benchmarks.peers.figures import LAST, Figures
from benchmarks.peers.installing import PEERS, ROOT, install
from benchmarks.peers.table import density_rows, kill_rows, printed, step_rows, targets
from benchmarks.peers.trial import KILLED_AT, Failed, Trial, kill_trial, timed_trial

WARMING_STEPS = 3
DENSITIES = {
    "Patchyard, journalled": ("patchyard", "patchyard_density.py"),
    "SWE-ReX, local deployment": ("swe-rex", "swerex_density.py", "local"),
    "SWE-ReX, a server each": ("swe-rex", "swerex_density.py", "served"),
}
DENSITY_S = 5.0
DENSITY_WAIT_S = 600


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", help="parts of names")
    parser.add_argument("--rounds", type=int, default=3, help="runs of --steps each")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--long", type=int, default=1000, help="steps of the one long run; 0: none")
    parser.add_argument("--at-most", type=float, default=900.0, help="seconds of one run")
    parser.add_argument("--environments", type=int, default=32, help="at once; 0: none")
    parser.add_argument("--into", type=Path, default=PEERS, help="where all is installed")
    parser.add_argument("--source", type=Path, default=ROOT, help="Patchyard's checkout")
    return parser.parse_args()


def note(text: str) -> None:
    """Say what happens, beside the table."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _installed(
    wanted: Mapping[Contender, Figures], *, source: Path, into: Path
) -> tuple[dict[str, Path], dict[str, str]]:
    venvs: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for contender in wanted:
        need = contender.needs
        if need in venvs or need in missing:
            continue
        note(f"installing {need}")
        try:
            venvs[need] = install(need, source=source, into=into)
        except Failed as failed:
            missing[need] = str(failed)
    for contender, figures in wanted.items():
        if contender.needs in missing:
            figures.trouble.append(missing[contender.needs])
    return venvs, missing


def _tried(figures: Figures, what: str, job):
    """Run one trial; its trouble is noted and the rest goes on."""
    note(f"{figures.name}: {what}")
    try:
        return asyncio.run(job)
    except Failed as failed:
        figures.trouble.append(f"{what}: {failed}")
        note(f"{figures.name}: {what}: {failed}")
        return None


def _measure(given: argparse.Namespace, wanted: dict[Contender, Figures], venvs) -> None:
    able = {c: figures for c, figures in wanted.items() if c.needs in venvs}
    for contender, figures in list(able.items()):
        job = timed_trial(contender, steps=WARMING_STEPS, venv=venvs[contender.needs])
        if _tried(figures, "warming up", job) is None:
            del able[contender]
    lengths = [given.steps] * given.rounds + [given.long] * bool(given.long)
    for number, steps in enumerate(lengths, 1):
        for contender, figures in able.items():
            job = timed_trial(
                contender, steps=steps, venv=venvs[contender.needs], at_most_s=given.at_most
            )
            trial = _tried(figures, f"{steps} steps, run {number} of {len(lengths)}", job)
            if trial:
                figures.trials.append(trial)
                _note_unfinished(figures, trial, steps, given.at_most)
    for contender, figures in able.items():
        job = kill_trial(contender, venv=venvs[contender.needs])
        figures.killed = _tried(figures, "killed and started again", job)


def _note_unfinished(figures: Figures, trial: Trial, steps: int, at_most_s: float) -> None:
    taken = len(trial.steps_ms)
    if taken < steps:
        last = statistics.median(trial.steps_ms[-LAST:])
        words = f"{taken} of {steps} steps in {at_most_s:.0f} s, the last ones at {last:.0f} ms"
        figures.trouble.append(words)


def _density(count: int, venvs: Mapping[str, Path]) -> dict[str, dict[str, float]]:
    """Let many environments work at once; a driver that fails has no figures."""
    found: dict[str, dict[str, float]] = {}
    for name, (need, driver, *words) in DENSITIES.items():
        if need not in venvs:
            continue
        note(f"{name}: {count} environments at once")
        command = [venvs[need] / "bin" / "python", DRIVERS / driver, *words]
        try:
            ended = subprocess.run(
                [*command, str(count), str(DENSITY_S)],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                check=True,
                timeout=DENSITY_WAIT_S,
            )
            found[name] = json.loads(ended.stdout.splitlines()[-1])
        except (subprocess.SubprocessError, ValueError, IndexError) as error:
            note(f"{name}: {error}: {(getattr(error, 'stderr', '') or '')[-300:]}")
            found[name] = {}
        process_tree.end_all()
    return found


def main() -> int:
    """Print the tables, and keep them below build/peers."""
    given = options()
    process_tree.become_reaper()
    wanted = {
        contender: Figures(
            name=contender.name,
            walls=contender.walls,
            keeps=contender.keeps,
            again=contender.again is not None,
        )
        for contender in CONTENDERS
        if not given.only or any(part in contender.name for part in given.only)
    }
    load = os.getloadavg()[0]
    venvs, _ = _installed(wanted, source=given.source, into=given.into)
    _measure(given, wanted, venvs)
    density = _density(given.environments, venvs) if given.environments else {}
    all_figures = list(wanted.values())
    print(
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"load {load:.1f} before and {os.getloadavg()[0]:.1f} after, medians of "
        f"{given.rounds} runs of {given.steps} steps and one of {given.long}; "
        "the model is scripted and thinks in no time\n"
    )
    print(printed(step_rows(all_figures)), end="\n\n")
    print(printed(kill_rows(all_figures, KILLED_AT)), end="\n\n")
    if density:
        print(printed(density_rows(density, given.environments)), end="\n\n")
    for figures in all_figures:
        for trouble in figures.trouble:
            print(f"{figures.name}: {trouble}")
    for target, measured, is_met in targets(all_figures, density):
        print(f"{'met   ' if is_met else 'MISSED'} {target}: {measured}")
    kept = {"steps": [it.as_json() for it in all_figures], "density": density}
    (given.into / "figures.json").write_text(json.dumps(kept, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
