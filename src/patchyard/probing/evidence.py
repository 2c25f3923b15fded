"""What shows that an attack succeeded, seen from outside wherever somebody can see it."""

import contextlib
import json
import os
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from patchyard.clients.process import ProcessRef, all_processes, kill
from patchyard.probing.attack import Evidence, Run

SHARED = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - where files of the run are looked for


def told(run: Run) -> str:
    """Its bait's content came out."""
    words = run.text + json.dumps(run.results)
    return "the bait's content came out" if run.scene.canary in words else ""


def remembered(run: Run) -> str:
    """What another call or process knows came out, by the script itself."""
    has_it = run.scene.canary in run.text or run.scene.kept in run.text
    return "what another call read came out" if has_it else ""


def said(run: Run) -> str:
    """The kernel let it be done; nobody else can see that."""
    _, found, note = run.text.partition(f"done:{run.scene.token}")
    return f"it was carried out: {note.splitlines()[0].strip()}".rstrip(": ") if found else ""


def changed(run: Run) -> str:
    """Somebody touched the bait outside."""
    return "the bait outside was changed" if run.scene.is_bait_changed else ""


def workspace_changed(run: Run) -> str:
    """Somebody touched what lay in the workspace, or was let do it to a replica of that."""
    if run.scene.is_place_changed:
        return "the workspace was changed"
    if run.results:
        is_done = any(result.get("success") for result in run.results)
    else:
        is_done = run.has_begun and "refused: " not in run.text
    return "nothing refused it" if is_done else ""


def journal_changed(run: Run) -> str:
    """Somebody wrote to the engine's state."""
    return "the engine's state was written" if run.scene.is_journal_changed else ""


def reached(run: Run) -> str:
    """A listener heard the run's token."""
    return "a listener outside was reached" if run.scene.heard.has(run.scene.token) else ""


def reached_or_said(run: Run) -> str:
    """A listener heard it, or a real one could be reached."""
    return reached(run) or said(run)


def killed(run: Run) -> str:
    """The bait process is gone."""
    return "the bait process was killed" if not run.scene.victim.is_alive else ""


def limits_changed(run: Run) -> str:
    """The bait process has other limits."""
    return "the bait process got another limit" if run.scene.victim.is_limited else ""


def survives(run: Run) -> str:
    """Something of it still runs."""
    left = processes_of(run.scene.token)
    return f"{len(left)} of its processes live on" if left else ""


def files_left(run: Run) -> str:
    """Files of it lie where others look."""
    left = [path for path in leftovers(run.scene.token) if path.exists()]
    return f"it left {', '.join(map(str, left))}" if left else ""


def many_files(run: Run) -> str:
    """Many files of it lie where others look."""
    places = (path for path in leftovers(run.scene.token) if path.is_dir())
    number = sum(len(list(place.iterdir())) for place in places)
    return f"it used {number} inodes of the machine" if number else ""


def root_owned_setuid(run: Run) -> str:
    """A set-user-ID file of root lies there."""
    return _any_file(
        run,
        lambda facts: facts.st_uid == 0 and bool(facts.st_mode & stat.S_ISUID),
        "a set-user-ID file of root was left",
    )


def device_made(run: Run) -> str:
    """A device lies there."""
    return _any_file(run, lambda facts: stat.S_ISCHR(facts.st_mode), "a device was left")


def _any_file(run: Run, is_it: Callable[[os.stat_result], bool], sentence: str) -> str:
    planted = run.scene.planned
    new = [path for path in run.scene.place.rglob("*") if str(path) not in planted]
    return sentence if any(is_it(path.lstat()) for path in new) else ""


def forged(run: Run) -> str:
    """An answer of its own making was taken for that of a call."""
    mark = f"forged-{run.scene.token}"
    if run.scene.given["control"]:
        return "a reader of frames would take it" if mark in run.text else ""
    return "a forged answer was taken" if mark in json.dumps(run.results) else ""


def flooded(run: Run) -> str:
    """More came than is kept of a call."""
    bound = int(run.scene.given["options"]["bound"])
    size = len(run.text) + sum(len(str(result.get("stdout", ""))) for result in run.results)
    return f"{size} bytes were kept" if size > 2 * bound else ""


def written_to_terminal(run: Run) -> str:
    """The bait terminal shows it."""
    has_it = run.scene.token in run.scene.terminal.shown()
    return "it stands on the bait terminal" if has_it else ""


def typed(run: Run) -> str:
    """The bait terminal was typed into."""
    has_it = run.scene.token in run.scene.terminal.typed()
    return "it was typed into the bait terminal" if has_it else ""


def unescaped(show: Callable[[str], str]) -> Evidence:
    """Return whether what our command line would show still steers a terminal."""

    def found(run: Run) -> str:
        text = run.text if run.scene.given["control"] else show(run.text)
        is_raw = run.scene.token in text and any(sign in text for sign in ("\x1b", "\x9b", "\r"))
        return "what is shown steers the terminal" if is_raw else ""

    return found


def processes_of(token: str) -> list[ProcessRef]:
    """Return the living processes that carry a token among their arguments."""
    found = []
    for row in all_processes():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{row.pid}/cmdline").read_bytes()
            if token.encode() in words and row.state not in "ZX" and row.pid != os.getpid():
                found.append(ProcessRef(pid=row.pid, started=row.started))
    return found


def end_processes_of(token: str) -> None:
    """Kill what is left of a run."""
    for process in processes_of(token):
        with contextlib.suppress(PermissionError):
            kill(process, signal.SIGKILL)


def leftovers(token: str) -> Iterator[Path]:
    """Yield where files of a run may have been left."""
    for folder in SHARED:
        yield Path(folder, f"patchyard-{token}")


__all__ = [
    "SHARED",
    "changed",
    "device_made",
    "end_processes_of",
    "files_left",
    "flooded",
    "forged",
    "journal_changed",
    "killed",
    "leftovers",
    "limits_changed",
    "many_files",
    "processes_of",
    "reached",
    "reached_or_said",
    "remembered",
    "root_owned_setuid",
    "said",
    "survives",
    "told",
    "typed",
    "unescaped",
    "workspace_changed",
    "written_to_terminal",
]
