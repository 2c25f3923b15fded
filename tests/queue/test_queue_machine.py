"""Any order of claims, signs of life, deaths, fences and settlements keeps the queue's promises."""

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

from patchyard.contracts.claims import Hold
from patchyard.contracts.journal import NewEvent
from patchyard.domain.errors import FencedOff
from patchyard.domain.queue import DEAD_S, DEATHS, Limits
from queue_halls import Post, SQLiteHall, job

T = TypeVar("T")

WORKERS = 3
AT_ONCE = 2
LIMITS = Limits(per_project=2, per_model=3)
NOTED = NewEvent(type="Noted", schema=1, at=1.0, body={})


@dataclass(kw_only=True)
class Known:
    """What must be so of one job."""

    project: str
    model: str
    owner: str | None = None  # member that has it
    generation: int = 0
    deaths: int = 0
    is_done: bool = False
    written: int = 0  # events in its stream


@dataclass(kw_only=True)
class Seen:
    """What must be so of one worker's present membership."""

    member: str
    beat: float
    is_buried: bool = False


@dataclass(frozen=True, kw_only=True)
class Grip:
    """A hold that some worker was given, good or stale."""

    worker: int
    job_id: str
    hold: Hold


class QueueMachine(RuleBasedStateMachine):
    """Three workers over one database, and a model of what they may see."""

    grips = Bundle("grips")

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path(tempfile.mkdtemp(prefix="patchyard-queue-"))
        self._loop = asyncio.new_event_loop()
        self._hall = SQLiteHall(folder=self._folder)
        self._posts: list[Post] = []
        self._seen: list[Seen] = []
        self._jobs: dict[str, Known] = {}
        for number in range(WORKERS):
            post = self._run(self._hall.post(f"w{number}", AT_ONCE))
            self._posts.append(post)
            self._seen.append(self._fresh(post))
        for number in range(4):
            self.put(project="pq"[number % 2], model="m", worker=0)

    def _run(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        return self._loop.run_until_complete(awaited())

    def _fresh(self, post: Post) -> Seen:
        return Seen(member=post.membership.member.member_id, beat=self._now)

    @property
    def _now(self) -> float:
        return self._hall.clock.seconds

    def teardown(self) -> None:
        self._run(self._hall.close())
        self._loop.close()
        shutil.rmtree(self._folder)

    @rule(project=st.sampled_from("pq"), model=st.sampled_from("mn"), worker=st.integers(0, 2))
    def put(self, project: str, model: str, worker: int) -> None:
        name = f"j{len(self._jobs)}"
        self._run(self._posts[worker].queue.put(job(name, project=project, model=model)))
        self._jobs[name] = Known(project=project, model=model)

    @rule(seconds=st.sampled_from([1.0, DEAD_S / 2]))
    def wait(self, seconds: float) -> None:
        self._hall.clock.seconds += seconds

    @rule(worker=st.integers(0, 2))
    def stop(self, worker: int) -> None:
        """One worker is stopped for long; the others see to what it had."""
        self._hall.clock.seconds += DEAD_S / 2 + 1
        others = [number for number in range(WORKERS) if number != worker]
        for number in others:
            self.beat(number)
        self._hall.clock.seconds += DEAD_S / 2
        self.reap(others[0])

    @rule(worker=st.integers(0, 2))
    def beat(self, worker: int) -> None:
        seen = self._seen[worker]
        if seen.is_buried:
            with pytest.raises(FencedOff):
                self._run(self._posts[worker].beat())
        else:
            self._run(self._posts[worker].beat())
            seen.beat = self._now

    @rule(worker=st.integers(0, 2))
    def begin_again(self, worker: int) -> None:
        """A worker that was taken for dead joins anew; so does one that only believes it."""
        old = self._seen[worker]
        if not old.is_buried and self._now - old.beat <= DEAD_S:
            return
        self._run(self._posts[worker].crew.join(f"w{worker}", AT_ONCE))
        self._bury(old)
        self._seen[worker] = self._fresh(self._posts[worker])

    @rule(worker=st.integers(0, 2))
    def reap(self, worker: int) -> None:
        if self._seen[worker].is_buried:
            with pytest.raises(FencedOff):
                self._run(self._posts[worker].crew.reap())
            return
        assert self._run(self._posts[worker].crew.reap()) == []
        for number, seen in enumerate(self._seen):
            if number != worker and self._now - seen.beat > DEAD_S:
                self._bury(seen)

    def _bury(self, seen: Seen) -> None:
        seen.is_buried = True
        for known in self._jobs.values():
            if known.owner == seen.member:
                known.owner = None
                known.deaths += 1

    @rule(target=grips, worker=st.integers(0, 2), room=st.integers(1, AT_ONCE))
    def claim(self, worker: int, room: int) -> Any:
        seen, crew = self._seen[worker], self._posts[worker].crew
        if not any(self._waits(known) for known in self._jobs.values()):
            assert self._run(crew.claim(room, LIMITS)) == ()
            return multiple()
        if seen.is_buried:
            with pytest.raises(FencedOff):
                self._run(crew.claim(room, LIMITS))
            return multiple()
        could = [name for name, known in self._jobs.items() if self._is_free(known)]
        taken = self._run(crew.claim(room, LIMITS))
        seen.beat = self._now
        assert len(taken) <= room
        assert bool(taken) == bool(could)
        for hold, given in taken:
            known = self._jobs[given.job_id]
            assert self._is_free(known)
            assert hold.lease.generation == known.generation + 1
            known.generation, known.owner = hold.lease.generation, seen.member
        return multiple(
            *(Grip(worker=worker, job_id=given.job_id, hold=hold) for hold, given in taken)
        )

    def _is_free(self, known: Known) -> bool:
        """Whether a job may be taken: it waits, and its slots are free."""
        busy = [each for each in self._jobs.values() if each.owner is not None]
        of_project = sum(each.project == known.project for each in busy)
        of_model = sum(each.model == known.model for each in busy)
        return self._waits(known) and of_project < 2 and of_model < 3

    def _waits(self, known: Known) -> bool:
        return known.owner is None and not known.is_done and known.deaths < DEATHS

    def _counts(self, grip: Grip) -> bool:
        known, lease = self._jobs[grip.job_id], grip.hold.lease
        return (known.owner, known.generation) == (lease.member_id, lease.generation)

    @rule(grip=grips)
    def write(self, grip: Grip) -> None:
        """A journal takes events of the owner, and of nobody who was it."""
        known = self._jobs[grip.job_id]
        journal = self._posts[grip.worker].journal.fenced(grip.hold.lease)
        writing = journal.append(grip.job_id, known.written, [NOTED])
        if self._counts(grip):
            known.written = self._run(writing)
        else:
            with pytest.raises(FencedOff):
                self._run(writing)

    @rule(grip=grips)
    def confirm(self, grip: Grip) -> None:
        """Who is told that it owns a plan does; asked when silent, it lives again by that."""
        seen = self._seen[grip.worker]
        is_known = seen.member == grip.hold.lease.member_id
        if self._counts(grip):
            self._run(grip.hold.confirm())
            if self._now - seen.beat > DEAD_S - 3:
                seen.beat = self._now
        elif not is_known or self._now - seen.beat > DEAD_S - 3:
            with pytest.raises(FencedOff):
                self._run(grip.hold.confirm())

    @rule(grip=consumes(grips), is_over=st.booleans())
    def settle(self, grip: Grip, is_over: bool) -> None:
        known = self._jobs[grip.job_id]
        again_at = None if is_over else self._now
        settling = self._posts[grip.worker].crew.settle(grip.hold, again_at=again_at)
        if not self._counts(grip):
            with pytest.raises(FencedOff):
                self._run(settling)
            return
        self._run(settling)
        known.owner, known.is_done = None, is_over

    @precondition(lambda self: self._jobs)
    @invariant()
    def no_slot_is_taken_twice_or_too_often(self) -> None:
        connection = self._posts[0].journal._connection
        taken = Counter(row[0] for row in connection.execute("SELECT scope FROM slots"))
        busy = [known for known in self._jobs.values() if known.owner is not None]
        assert taken.total() == 3 * len(busy)
        for scope, count in taken.items():
            limit = LIMITS.of(scope)
            assert limit is None or count <= limit

    @invariant()
    def what_is_listed_is_what_is_left_to_do(self) -> None:
        listed = self._run(self._posts[0].queue.jobs())
        left = {name for name, known in self._jobs.items() if not known.is_done}
        assert {each.job_id for each, _ in listed} == left


QueueMachine.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestQueueMachine = QueueMachine.TestCase
