"""What is wrong after a power cut at one instant of a recording, when the engine goes on there."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.disks import Machine
from chaos.killing import journalled
from chaos.matrix import badly_settled, lost
from chaos.recordings import Answer, Command, Recorded, Recording, answer, git, seen
from chaos.write_logs import Disks

__all__ = ["RESUME", "Instant", "aftermath"]

RESUME = Command(name="resume", words=("plan", "resume", "@last"))
VERIFY = Command(name="verify", words=("plan", "verify", "@last"))
DOCTOR = Command(name="doctor", words=("doctor",))
LIST = Command(name="list", words=("plan", "list"))
INSIDE = {"run", "rollback", "resume", "gc"}  # what changes nothing in the user's repository


@dataclass(frozen=True, kw_only=True)
class Instant:
    """When the power is cut: in a command of the recording, or right after it said its last."""

    number: int  # of the command
    at: int
    is_told: bool


def aftermath(
    recording: Recording,
    disks: Disks,
    instant: Instant,
    rng: random.Random,
    *,
    lying_from: int = -1,
    is_thorough: bool = False,
) -> list[str]:
    """Cut the power at an instant and let the engine go on; what is wrong.

    `is_thorough` asks `doctor`, too; with `lying_from` the disk lies of its flushes from there on.
    """
    image = recording.folder / f"cut-{rng.randrange(1 << 48):012x}.ext4"  # others may hold the last
    cut = disks.cut(instant.at, image, rng, lying_from=lying_from)
    here = Machine(image, recording.folder / "yard")
    here.boots = 1  # the one of the recording
    here.start()
    try:
        found = _Aftermath(here, recording, instant, is_thorough=is_thorough).wrongs()
    finally:
        here.cut()
        image.unlink()
    name = recording.commands[instant.number].command.name
    return [f"{name}, {instant}, {cut}: {text}" for text in found]


class _Aftermath:
    """One disk after a cut."""

    def __init__(
        self, here: Machine, recording: Recording, instant: Instant, *, is_thorough: bool
    ) -> None:
        self._here = here
        self._recording = recording
        self._instant = instant
        self._is_thorough = is_thorough
        self._now = recording.commands[instant.number]
        number = instant.number
        self._before = recording.commands[number - 1].after if number else recording.first

    def wrongs(self) -> list[str]:
        """Look at the disk, let the engine go on, and look again."""
        found = [*self._broken(), *self._unlike_acknowledged()]
        if found:  # the engine is not asked to go on over a loss
            return [f"at once, {text}" for text in found]
        if self._is_known():
            found += self._failed(VERIFY)
        found += self._gone_on()
        if self._is_thorough:
            found += self._failed(DOCTOR)
        events = journalled(self._here.yard)
        told = [
            event
            for each in self._recording.commands
            for at, event in each.answer.told
            if at <= self._instant.at
        ]
        return [*found, *lost(told, events), *badly_settled(events), *self._broken()]

    def _is_known(self) -> bool:
        """Whether something of the plan was told."""
        told = self._recording.commands[0].answer.told
        return any(at <= self._instant.at for at, event in told if "event" in event)

    def _failed(self, command: Command) -> list[str]:
        end = answer(self._here, command).end
        return [f"{command.name}: {end['error']}"] if end["exit_code"] != 0 else []

    def _unlike_acknowledged(self) -> list[str]:
        """Say what acknowledged is not there, and what in flight is neither old nor new."""
        now, before, after = seen(self._here.yard), self._before, self._now.after
        if self._instant.is_told:
            return after.differences(now, is_exact=True)
        if self._now.command.name in INSIDE:
            return before.differences(now, is_exact=True)
        return now.neither(before, after)

    def _gone_on(self) -> list[str]:
        """Repeat the command that was cut, or give the next one; what is wrong then."""
        number = self._instant.number + self._instant.is_told
        if number == len(self._recording.commands):
            return []
        wanted = self._recording.commands[number]
        name = wanted.command.name
        said = self._carried_on(self._again(wanted))
        refused = said.end["error"] or {}
        is_done = name == "unapply" and refused.get("code") == "guard"  # before the cut
        if said.end["exit_code"] != 0 and not is_done:
            return [f"{name} ended with {refused}"]
        found = wanted.after.differences(seen(self._here.yard), is_exact=False)
        if name == "rollback":
            said = answer(self._here, RESUME)
        changeset = (said.end["data"] or {}).get("changeset")
        tree = self._recording.commands[0].answer.end["data"]["changeset"]["tree"]
        if changeset and changeset["tree"] != tree:
            found.append(f"the change set is {changeset['tree']}, undisturbed it is {tree}")
        return [f"after {name}, {text}" for text in found]

    def _carried_on(self, command: Command) -> Answer:
        """Run it; a lock that a git of before the cut left is cleared away as the error says."""
        said = answer(self._here, command)
        lock = ((said.end["error"] or {}).get("details") or {}).get("lock")
        if lock is None:
            return said
        Path(lock).unlink()
        return answer(self._here, command)

    def _again(self, wanted: Recorded) -> Command:
        if wanted.command.name != "run":
            return wanted.command
        return RESUME if answer(self._here, LIST).end["data"]["plans"] else wanted.command

    def _broken(self) -> Sequence[str]:
        """What git says of the user's repository and of our stores."""
        yard = self._here.yard
        found = []
        for place in (yard / "repo", *sorted(yard.glob("home/trees/*/store.git"))):
            checked = git(place, "fsck", "--strict", "--no-dangling", "--no-progress")
            if checked.returncode != 0 or "error" in checked.stderr:
                found.append(f"{place}: {checked.stdout}{checked.stderr}")
        return found
