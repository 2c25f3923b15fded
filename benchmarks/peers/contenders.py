"""Who takes part: how each is started without asking anybody, and how it is started again.

Each runs as its own documents recommend for unattended work, telemetry and price look-ups off.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.scripted_model import Call, Plot

__all__ = ["CONTENDERS", "DRIVERS", "Contender", "Places"]

DRIVERS = Path(__file__).parent / "drivers"
TASK = "Take the steps."


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where one run happens."""

    folder: Path  # all of it, empty at first
    work: Path  # a small git repository, the working directory
    venv: Path  # with the contender in it
    url: str  # of the scripted model, ends with /v1


Command = Callable[[Places], Sequence[str]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Contender:
    """One engine in one configuration."""

    name: str
    needs: str  # the entry of versions.toml
    walls: str  # what keeps a command from the rest of the machine
    keeps: str  # what of the work is on disk while it goes on
    command: Command
    act: Callable[[str], Call]
    ending: Call | None
    opening: tuple[Call, ...] = ()
    variables: Callable[[Places], Mapping[str, str]] = lambda _places: {}
    again: Command | None = None  # None: it has no way to go on, it starts anew

    def plot(self, *, steps: int, leaves_effects: bool = False, slow_step: int = 0) -> Plot:
        """Return the script of the model in this contender's tools."""
        return Plot(
            steps=steps,
            act=self.act,
            ending=self.ending,
            opening=self.opening,
            leaves_effects=leaves_effects,
            slow_step=slow_step,
        )

    def environ(self, places: Places) -> Mapping[str, str]:
        """Return the variables that it needs beside the common ones."""
        return self.variables(places)


def _bash(command: str) -> Call:
    return Call(name="bash", arguments={"command": command})


# Patchyard


def _agents(places: Places, *words: str) -> list[str]:
    return [str(places.venv / "bin" / "agents"), *words]


def _patchyard(places: Places) -> list[str]:
    limits = ["--max-steps", "100000", "--max-tokens", "100000000", "--timeout", "24h"]
    return _agents(places, "run", TASK, "--model", "openai:scripted", "--in", "process", *limits)


# mini-swe-agent


def _mini(places: Places, *words: str) -> list[str]:
    return [
        *(str(places.venv / "bin" / "mini"), "-m", "openai/scripted", "-t", TASK, "-y"),
        *("--exit-immediately", "--cost-limit", "0", "--agent-class", "default", *words),
    ]


def _mini_saving(places: Places) -> list[str]:
    return _mini(places, "-o", str(places.folder / "trajectory.json"))


def _mini_variables(places: Places) -> dict[str, str]:
    return {
        "OPENAI_API_BASE": places.url,
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_CONFIGURED": "true",
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_GLOBAL_CONFIG_DIR": str(places.folder / "mini"),
        **_LITELLM,
    }


_LITELLM = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}

# OpenHands


def _openhands(places: Places) -> list[str]:
    return [
        *(str(places.venv / "bin" / "python"), str(DRIVERS / "openhands_run.py")),
        *(str(places.folder / "conversations"), str(places.work)),
    ]


def _openhands_variables(_places: Places) -> dict[str, str]:
    return {"OPENHANDS_SUPPRESS_BANNER": "1", "LOG_LEVEL": "ERROR", **_LITELLM}


# inspect_ai


def _task_from(work: Path) -> str:
    return os.path.relpath(DRIVERS / "inspect_task.py", work)  # it takes no absolute path


def _inspect(places: Places) -> list[str]:
    return [
        *(str(places.venv / "bin" / "inspect"), "eval", _task_from(places.work)),
        *("--model", "openai-api/scripted/scripted", "--display", "none"),
        *("--log-dir", str(places.folder / "logs"), "--no-score"),
    ]


def _inspect_again(places: Places) -> list[str]:
    logs = sorted((places.folder / "logs").glob("*"))
    return [
        *(str(places.venv / "bin" / "inspect"), "eval-retry", *map(str, logs[:1])),
        *("--display", "none", "--log-dir", str(places.folder / "logs")),
    ]


def _inspect_variables(places: Places) -> dict[str, str]:
    return {
        "SCRIPTED_BASE_URL": places.url,
        "SCRIPTED_API_KEY": "made-up",
        "INSPECT_DISABLE_TELEMETRY": "1",
    }


def _driver(name: str, *words: str) -> Command:
    return lambda places: [str(places.venv / "bin" / "python"), str(DRIVERS / name), *words]


CONTENDERS = (
    Contender(
        name="Patchyard",
        needs="patchyard",
        walls="sandbox",
        keeps="journal, fsync",
        command=_patchyard,
        act=lambda command: Call(name="execute_command", arguments={"command": command}),
        ending=Call(name="finish", arguments={"summary": "Done."}),
        opening=(Call(name="finish", arguments={"summary": "Steps."}),),
        variables=lambda places: {"PATCHYARD_HOME": str(places.folder / "patchyard")},
        again=lambda places: _agents(places, "plan", "resume"),
    ),
    Contender(
        name="bare Python loop",
        needs="bare",
        walls="none",
        keeps="nothing",
        command=_driver("bare_loop.py"),
        act=_bash,
        ending=None,
    ),
    Contender(
        name="mini-swe-agent",
        needs="mini-swe-agent",
        walls="none",
        keeps="nothing",
        command=_driver("mini_run.py"),
        act=_bash,
        ending=_bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
        variables=_mini_variables,
    ),
    Contender(
        name="mini-swe-agent, saving",
        needs="mini-swe-agent",
        walls="none",
        keeps="trajectory",
        command=_mini_saving,
        act=_bash,
        ending=_bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
        variables=_mini_variables,
    ),
    Contender(
        name="SWE-ReX execute, bare loop",
        needs="swe-rex",
        walls="none",
        keeps="nothing",
        command=_driver("swerex_loop.py", "execute"),
        act=_bash,
        ending=None,
    ),
    Contender(
        name="SWE-ReX shell, bare loop",
        needs="swe-rex",
        walls="none",
        keeps="nothing",
        command=_driver("swerex_loop.py", "session"),
        act=_bash,
        ending=None,
    ),
    Contender(
        name="inspect_ai, local sandbox",
        needs="inspect_ai",
        walls="none",
        keeps="sample buffer",
        command=_inspect,
        act=_bash,
        ending=Call(name="submit", arguments={"answer": "Done."}),
        variables=_inspect_variables,
        again=_inspect_again,
    ),
    Contender(
        name="OpenHands SDK, terminal",
        needs="openhands",
        walls="none",
        keeps="events",
        command=_openhands,
        act=lambda command: Call(name="terminal", arguments={"command": command}),
        ending=Call(name="finish", arguments={"message": "Done."}),
        variables=_openhands_variables,
        again=_openhands,
    ),
)
