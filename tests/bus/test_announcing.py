"""Workers tell what they are: to who looks, to who listens; plans go to those of their role."""

import asyncio
import json
import signal
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from crews import LONGEST_S, WorkerCrew, crewed, plans_in
from engine.worksite import ADD, Worksite, done
from patchyard.domain.announcing import TOPIC, Announcement, Skills, announcement_of
from patchyard.domain.queue import HEARTBEAT_S, Limits
from patchyard.engine import herald
from patchyard.engine.herald import Herald
from patchyard.engine.standing import standings
from patchyard.stores import database
from queue_halls import SQLiteHall

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

SKILLS = Skills(
    roles=("tester",), takes_all=False, capabilities=("a b",), expertise=("c",), version="1.2"
)

SAID = Announcement(member_id="M", worker="w", skills=SKILLS)
ENDLESS = json.dumps({**SAID.data(), "load": float("inf")})


@pytest.fixture
def site(tmp_path: Path) -> Worksite:
    return Worksite.make(tmp_path, {"a.txt": "a\n"})


@pytest.fixture
def crew(site: Worksite) -> Iterator[WorkerCrew]:
    with crewed(site) as made:
        yield made


def test_an_announcement_is_read_as_it_was_said() -> None:
    said = Announcement(member_id="M", worker="w", skills=SKILLS, load=1, concurrency=2)
    assert announcement_of(json.loads(json.dumps(said.data()))) == said


async def test_a_worker_announces_when_it_joins_when_that_changes_and_with_each_beat(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site.open() as (equipment, _), equipment.bus.subscribe(TOPIC) as listening:
        monkeypatch.setattr(herald, "HEARTBEAT_S", 3600.0)  # no beat comes by itself
        voice = Herald(equipment, SKILLS)
        await voice.announce(0)  # nobody yet
        voice.joined(await equipment.crew.join("w", 2))
        for load in (0, 0, 1):  # what is the same, a moment later, is not said again
            await voice.announce(load)
        monkeypatch.setattr(herald, "HEARTBEAT_S", 0.0)
        await voice.announce(1)
        await voice.announce(1, is_draining=True)
        async with asyncio.timeout(120):
            heard = [await listening.next() for _ in range(4)]
        rows = [announcement_of(each.body) for each in heard]
        assert [(each.load, each.is_draining) for each in rows] == [
            *((0, False), (1, False)),
            *((1, False), (1, True)),
        ]
        assert {each.sender for each in heard} == {"w"}
        (member,) = await equipment.queue.members()
        assert member.announced == rows[-1]
        await equipment.crew.leave()
        assert HEARTBEAT_S > 0


async def test_plans_wait_for_a_worker_of_their_role(site: Worksite, crew: WorkerCrew) -> None:
    plan_id = await crew.queue(site.script([ADD, done()]), role="developer")
    async with site.open() as (equipment, _), equipment.bus.subscribe(TOPIC) as listening:
        crew.start("t", "--role", "tester", "--role", "reviewer")
        async with asyncio.timeout(LONGEST_S):
            told = await listening.next()
            while announcement_of(told.body).load:  # it begins with the chores
                told = await listening.next()
            assert told.sender == "t"
    (row,) = crew.agents("role", "list", "--announced")["data"]["workers"]
    assert (row["worker"], row["roles"], row["takes_all"]) == ("t", ["tester", "reviewer"], False)
    assert (row["load"], row["concurrency"], row["is_draining"]) == (0, 2, False)
    assert "code-review" in row["capabilities"]
    assert row["expertise"] == ["testing", "code review"]
    async with site.open() as (equipment, _):
        found = await standings(equipment.queue, equipment.clock, Limits())
        assert found[plan_id].waits_for == "a worker for the role developer: none is alive"
        assert await plans_in(equipment.queue) == [plan_id]
        assert found[plan_id].is_stranded
    out, _ = crew.spawn("plan", "resume", plan_id, "-d").communicate(timeout=LONGEST_S)
    assert "no living worker takes the role developer" in out
    crew.start("d")
    crew.agents("plan", "watch", plan_id)
    async with site.open() as (equipment, _), asyncio.timeout(LONGEST_S):
        while await plans_in(equipment.queue):  # noqa: ASYNC110 - its worker lets go of it last
            await asyncio.sleep(0.02)
    assert crew.status(plan_id)["owner"] is None
    assert crew.status(plan_id)["state"] == "complete"
    rows = crew.agents("role", "list", "--announced")["data"]["workers"]
    assert [(row["worker"], row["takes_all"]) for row in rows] == [("t", False), ("d", True)]


async def test_workers_that_are_there_already_are_found_through_the_database(
    site: Worksite, crew: WorkerCrew
) -> None:
    async with site.open() as (equipment, _):
        member = await equipment.crew.join("w", 1)
        said = replace(SAID, member_id=member.member_id)
        await equipment.crew.announce(said)  # and nothing on the bus, which holds no history
        rows = crew.agents("role", "list", "--announced")["data"]["workers"]
        assert [(row["worker"], row["roles"]) for row in rows] == [("w", ["tester"])]
        following = crew.spawn("role", "list", "--announced", "--follow", "--format", "json")
        assert following.stdout is not None
        line = asyncio.create_task(asyncio.to_thread(following.stdout.readline))
        async with asyncio.timeout(LONGEST_S):
            while not (await asyncio.wait([line], timeout=0.2))[0]:  # it listens from some moment
                later = replace(said, member_id="V", worker="v")
                await equipment.bus.publish(TOPIC, later.data(), sender="v")
        first = json.loads(await line)
        assert (first["event"], first["worker"], first["roles"]) == ("Announced", "w", ["tester"])
        await equipment.crew.leave()


def test_who_follows_hears_of_workers_as_they_come(site: Worksite, crew: WorkerCrew) -> None:
    following = crew.spawn("role", "list", "--announced", "--follow", "--format", "json")
    assert following.stdout is not None
    crew.start("w", "--role", "tester")
    first = json.loads(following.stdout.readline())
    assert (first["event"], first["worker"], first["roles"]) == ("Announced", "w", ["tester"])
    with sqlite3.connect(site.folder / "home" / "patchyard.db") as other:
        for body in ("{}", ENDLESS):  # messages that are no announcements end no listening
            other.execute(
                "INSERT INTO bus (topic, sender, at, body) VALUES (?, 'x', 0, ?)", (TOPIC, body)
            )
    other.close()
    crew.start("v", "--role", "developer")
    told = first
    while told["worker"] == "w":  # which may be at a chore by now
        told = json.loads(following.stdout.readline())
    assert (told["worker"], told["roles"]) == ("v", ["developer"])
    following.send_signal(signal.SIGINT)
    out, _ = following.communicate(timeout=LONGEST_S)
    answer = json.loads(out.splitlines()[-1])  # a chore that ended meanwhile was told before it
    assert answer["exit_code"] == following.returncode == 130
    assert "--follow goes with" in crew.agents("role", "list", "--follow")["error"]["message"]


def test_a_role_that_there_is_not_is_named(crew: WorkerCrew) -> None:
    error = crew.agents("worker", "--role", "testr")["error"]
    assert "unknown role 'testr'" in error["message"]
    shown, _ = crew.spawn("role", "list", "--announced").communicate()
    assert shown == "no worker is alive: start one with `agents worker`\n"


@pytest.mark.parametrize("text", ["[1]", "[" * 100_000, ENDLESS])
async def test_what_cannot_be_read_is_nothing_said(site: Worksite, text: str) -> None:
    async with site.open() as (equipment, _):
        await equipment.crew.join("w", 1)
        with sqlite3.connect(site.folder / "home" / "patchyard.db") as other:
            other.execute("UPDATE members SET announced = ?", (text,))
        other.close()
        assert [each.announced for each in await equipment.queue.members()] == [None]
        await equipment.crew.leave()


async def test_jobs_and_lanes_of_an_older_version_are_anybodys(tmp_path: Path) -> None:
    path = tmp_path / "patchyard.db"
    older = sqlite3.connect(path)
    for script in database.migrations()[:5]:
        for statement in script.split(";\n"):
            older.execute(statement)
    older.execute(f"PRAGMA application_id = {database.APPLICATION_ID}")
    older.execute("PRAGMA user_version = 5")
    older.execute("INSERT INTO lanes VALUES ('p', 'm', 7)")
    older.execute(
        "INSERT INTO jobs (job, errand, project, model, priority, not_before, every_s, queued)"
        " VALUES ('old', 'run', 'p', 'm', 0, 0, 0, 0)"
    )
    older.commit()
    older.close()
    hall = SQLiteHall(folder=tmp_path)
    worker = await hall.post("w")
    assert [name for _, name in await worker.take(2, roles=("tester",))] == ["old"]
    await hall.close()
