"""Makes the environment of each contender below build/peers; never touches .venv."""

import shutil
import subprocess
import tomllib
from pathlib import Path

from benchmarks.peers.trial import Failed

__all__ = ["PEERS", "install"]

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "build" / "peers"
OURS = "patchyard"
WANTED = ("3.12", "3.13", "3.11")  # the first that is there and new enough
INSTALL_S = 1800


def install(need: str, *, source: Path = ROOT, into: Path = PEERS) -> Path:
    """Return the environment with what `need` names in versions.toml. Raises Failed.

    Patchyard is put there as it is in `source`, each time anew; the others once a version.
    """
    known = tomllib.loads((Path(__file__).parent / "versions.toml").read_text())
    entry = known.get(need, {"python": "3.11", "packages": []})
    venv = into / need
    ready = venv / "ready"
    words = " ".join(entry["packages"])
    if not ready.is_file() or ready.read_text() != words:
        shutil.rmtree(venv, ignore_errors=True)
        into.mkdir(parents=True, exist_ok=True)
        _run([_interpreter(entry["python"]), "-m", "venv", str(venv)])
        _pip(venv, *entry["packages"])
        ready.write_text(words)
    if need == OURS:
        _pip(venv, "--force-reinstall", str(source))
    return venv


def _interpreter(oldest: str) -> str:
    for version in WANTED:
        if tuple(map(int, version.split("."))) < tuple(map(int, oldest.split("."))):
            continue
        kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
        for python in [f"python{version}", *map(str, kept)]:
            if (
                shutil.which(python)
                and not subprocess.run(
                    [python, "-c", "import venv, ensurepip"], check=False, capture_output=True
                ).returncode
            ):
                return python
    raise Failed(f"needs Python {oldest} or newer")


def _pip(venv: Path, *words: str) -> None:
    if words:
        quiet = ["--quiet", "--disable-pip-version-check"]
        _run([str(venv / "bin" / "python"), "-m", "pip", "install", *quiet, *words])


def _run(command: list[str]) -> None:
    try:
        ended = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=INSTALL_S
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"the installation took longer than {INSTALL_S} s") from None
    if ended.returncode:
        lines = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")]
        raise Failed(f"cannot be installed: {(lines or ['pip failed'])[-1][:200]}")
