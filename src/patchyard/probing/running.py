"""Runs an attack inside an environment, and as a control where nothing protects."""

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from patchyard.clients.interpreters import toolbox_interpreter
from patchyard.contracts.environment import Toolbox
from patchyard.domain.errors import EnvironmentBroken
from patchyard.probing.attack import Attack, Call, Control, Order, Run
from patchyard.probing.scene import Scene
from patchyard.probing.scripting import words

PYTHON = "python3"  # as the place's own PATH finds it
ANSWER_S = 30.0  # beyond the script's own time; then it counts as hanging
SLOWER = 6  # times the time, for a script that did not come to its first word: a slow place
TIME_IS_UP = "\nrefused: its time was up\n"
KEPT_BYTES = 32 * 1024 * 1024  # of a control's output


class Inside:
    """Runs attacks in one environment, by its toolbox."""

    def __init__(self, toolbox: Toolbox, new_id: Callable[[], str]) -> None:
        self._toolbox = toolbox
        self._new_id = new_id

    async def run(self, attack: Attack, scene: Scene) -> Run:
        """Run it; an environment that breaks is what came of it."""
        run = Run(scene=scene)
        script, calls = self._script(attack, run), self._calls(attack, run)
        try:
            async with asyncio.timeout((1 + SLOWER) * attack.timeout_s + ANSWER_S):
                if attack.order is Order.BESIDE:
                    await asyncio.gather(script, calls)
                else:
                    turns = [script, calls] if attack.order is Order.AFTER else [calls, script]
                    for turn in turns:
                        await turn
        except (EnvironmentBroken, TimeoutError) as error:
            run.is_broken = isinstance(error, EnvironmentBroken)
            run.text += f"\nrefused: {str(error) or 'no answer'}\n"
        finally:
            script.close()
            calls.close()
        return run

    async def _script(self, attack: Attack, run: Run) -> None:
        if not attack.script:
            run.text = f"began:{run.scene.token}\n"
            return
        command = shlex.join([PYTHON, *words(attack.group, attack.script, run.scene.given)])
        for timeout_s in (attack.timeout_s, SLOWER * attack.timeout_s):
            arguments = {"command": f"exec {command}", "timeout_s": timeout_s}
            result = await self._toolbox.call(self._new_id(), "execute_command", arguments)
            run.text = f"{result.get('stdout', '')}{result.get('stderr', '')}"
            if run.text or result.get("error") != "TIMEOUT":
                break
        if not run.text:  # it never came to its first word
            run.text = f"refused: {result.get('message', '')}\n"
        if result.get("error") == "TIMEOUT":
            run.text += TIME_IS_UP

    async def _calls(self, attack: Attack, run: Run) -> None:
        for call in attack.calls:
            for _ in range(call.repeat):
                run.results.append(await self._call(call, run.scene.given))

    async def _call(self, call: Call, given: Mapping[str, Any]) -> Mapping[str, Any]:
        arguments = {name: _filled(value, given) for name, value in call.args.items()}
        call_id = _filled(call.call_id, given) or self._new_id()
        return await self._toolbox.call(call_id, call.op, arguments)


def _filled(value: Any, given: Mapping[str, Any]) -> Any:
    return value.format_map(given) if isinstance(value, str) else value


async def run_control(attack: Attack, scene: Scene, *, identity: tuple[int, int] | None) -> Run:
    """Run the same by a process without walls; `identity` is the agent's where it is another.

    A script that had no time to begin gets more, as inside.
    """
    run = await _run_control(attack, scene, attack.timeout_s, identity=identity)
    if run.text != TIME_IS_UP:
        return run
    return await _run_control(attack, scene, SLOWER * attack.timeout_s, identity=identity)


async def _run_control(
    attack: Attack, scene: Scene, timeout_s: float, *, identity: tuple[int, int] | None
) -> Run:
    script = attack.control_script or attack.script
    user = identity if attack.control is Control.AGENT else None
    prefix = _namespaces() if attack.control is Control.NAMESPACES else []
    leak = [int(scene.given["leak"])] if "leak" in scene.given else []
    with tempfile.TemporaryFile() as printed:  # no pipe, which a survivor would keep open
        try:
            process = await asyncio.create_subprocess_exec(
                *prefix,
                toolbox_interpreter().path,
                *words(attack.group, script, scene.given),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=printed,
                stderr=asyncio.subprocess.STDOUT,
                cwd=scene.given["workspace"],
                user=None if user is None else user[0],
                group=None if user is None else user[1],
                extra_groups=None if user is None else [],
                start_new_session=True,
                pass_fds=leak,
            )
        except OSError as error:
            return Run(scene=scene, text=f"refused: {error}\n")
        end = await _end(process, timeout_s)
        printed.seek(0)
        text = printed.read(KEPT_BYTES).decode("utf-8", "replace")
    return Run(scene=scene, text=f"{text}{end}")


async def _end(process: asyncio.subprocess.Process, timeout_s: float) -> str:
    """Wait for it, and kill it alone when its time is up, as one without a toolbox would."""
    try:
        async with asyncio.timeout(timeout_s):
            await process.wait()
    except TimeoutError:
        return TIME_IS_UP
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()
    return ""


def _namespaces() -> list[str]:
    """Return how a program gets all rights over namespaces of its own."""
    unshare = shutil.which("unshare") or "unshare"
    own = ["--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child"]
    return [unshare, *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), *own]


__all__ = ["ANSWER_S", "KEPT_BYTES", "PYTHON", "SLOWER", "TIME_IS_UP", "Inside", "run_control"]
