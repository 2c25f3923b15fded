"""Homes that earlier versions made are opened, resumed, replayed and taken back by this one."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from home_of_version import FILES
from homes.unpacked import Said, Unpacked, unpacked
from services import need

pytestmark = [pytest.mark.service("bubblewrap")]

VERSIONS = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6")
ORDINARY = [f"{version}-ordinary" for version in VERSIONS]
HOMES = [*ORDINARY, *(f"{version}-root" for version in VERSIONS)]
PLANS = ("ended", "made", "waits", "fails", "handed", "stopped")
EXPORT = "../home/export.json"
#: What depends on when it is asked, and what was a word in 0.1 and 0.2 and is a record now.
NOT_COMPARED = {"cost.budgets", "execution.environments", "owner", "reach.network", "waiting"}
STEPS = ["step-1", "step-2", "step-3", "step-4"]

each_home = pytest.mark.parametrize("name", HOMES)
each_ordinary_home = pytest.mark.parametrize("name", ORDINARY)  # root's would say the same


@dataclass(frozen=True, kw_only=True)
class Life:
    """A home, and all that this version said of it and did with it."""

    home: Unpacked
    said: Mapping[str, Said]  # by a word for the command and the plan's name
    stock: str  # of the checkout after the change was taken back


Lived = Callable[[str], Life]


@pytest.fixture(scope="module")
def lived() -> Iterator[Lived]:
    """Live through a home, once for all tests of this file."""
    lives: dict[str, Life] = {}
    with ExitStack() as stack:

        def of(name: str) -> Life:
            users = ("ordinary-user", "user-namespaces") if name in ORDINARY else ("root",)
            for service in ("mount", *users):
                need(service)
            if name not in lives:
                lives[name] = _life(stack.enter_context(unpacked(name)))
            return lives[name]

        yield of


def _life(home: Unpacked) -> Life:
    looks = {**_looks(home), **(_further_looks(home) if home.user else {})}
    said = dict(zip(looks, home.each(*looks.values()), strict=True))
    said["resume"] = home.agents("plan", "resume", home.plan("stopped"))
    deeds = {**(_further_deeds(home) if home.user else {}), **_deeds(home)}
    said |= zip(deeds, home.each(*deeds.values()), strict=True)
    return Life(home=home, said=said, stock=(home.folder / "repo" / "stock.py").read_text())


def _looks(home: Unpacked) -> Mapping[str, Sequence[str]]:
    return {
        "list": ("plan", "list"),
        **{f"status {name}": ("plan", "status", home.plan(name)) for name in PLANS},
        **{f"verify {name}": ("plan", "verify", home.plan(name)) for name in PLANS},
        "gc": ("gc",),
    }


def _further_looks(home: Unpacked) -> Mapping[str, Sequence[str]]:
    return {
        "export": ("plan", "export", home.plan("handed"), "--to", EXPORT),
        "project": ("project", "show", "shop"),
        "action": ("action", "list"),
        "resource": ("resource", "list"),
        "invariant": ("invariant", "list"),
        "doctor": ("doctor",),
    }


def _deeds(home: Unpacked) -> Mapping[str, Sequence[str]]:
    return {
        "unapply": ("plan", "unapply", home.plan("handed")),
        "diff": ("plan", "diff", home.plan("stopped")),
        "events": ("plan", "events", home.plan("stopped")),
        **{f"verify {name} again": ("plan", "verify", home.plan(name)) for name in PLANS},
    }


def _further_deeds(home: Unpacked) -> Mapping[str, Sequence[str]]:
    return {
        "replay": ("plan", "replay", home.plan("ended")),
        "strategize": ("plan", "strategize", home.plan("made")),
        "approve": ("plan", "approve", home.plan("waits")),
        "go on": ("plan", "resume", home.plan("waits")),
    }


@each_home
def test_each_plan_is_folded_into_what_that_version_told_of_it(lived: Lived, name: str) -> None:
    life = lived(name)
    listed = {each["plan_id"] for each in life.said["list"].data["plans"]}
    assert listed == {life.home.plan(plan) for plan in PLANS}
    for plan in PLANS:
        said = life.said[f"status {plan}"]
        assert said.code == 0
        assert dict(_told_otherwise(life.home.told[plan], said.data)) == {}


def _told_otherwise(told: Any, now: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what an earlier version told and this one tells otherwise."""
    if place in NOT_COMPARED:
        return
    if isinstance(told, dict) and isinstance(now, dict):
        for key, value in told.items():
            yield from _told_otherwise(value, now.get(key), f"{place}.{key}".lstrip("."))
    elif isinstance(told, list) and isinstance(now, list) and len(told) == len(now):
        for one, other in zip(told, now, strict=True):
            yield from _told_otherwise(one, other, place)
    elif told != now:
        yield place, (told, now)


@each_home
def test_each_journal_is_whole_before_and_after(lived: Lived, name: str) -> None:
    life = lived(name)
    for plan in PLANS:
        before, after = life.said[f"verify {plan}"], life.said[f"verify {plan} again"]
        assert [before.code, after.code] == [0, 0], (before.error, after.error)
        assert before.data["is_hashed"] is not name.startswith("0.1-")
    resumed = life.said["verify stopped again"].data
    assert resumed["is_hashed"]
    assert resumed["events"] > life.said["verify stopped"].data["events"]


@each_home
def test_a_stopped_plan_goes_on_and_each_effect_is_there_once(lived: Lived, name: str) -> None:
    life = lived(name)
    resumed = life.said["resume"]
    assert (resumed.code, resumed.data["state"]) == (0, "complete"), resumed.error
    patch = life.said["diff"].data["patch"]
    assert [line[1:] for line in patch.splitlines() if line.startswith("+step-")] == STEPS
    assert {each["path"]: each["status"] for each in resumed.data["changeset"]["files"]} == {
        "README": "deleted",
        "made/new.txt": "added",
        "steps.txt": "added",
    }
    events = life.said["events"].data["events"]
    settled = Counter(each["call_id"] for each in events if each["event"] == "ToolCallSettled")
    assert set(settled.values()) == {1}
    asked = Counter(
        step
        for each in events
        for step in STEPS
        if each["event"] == "ToolCallRequested" and step in str(each["arguments"])
    )
    assert (asked["step-1"], asked["step-2"], asked["step-4"]) == (1, 1, 1)


@each_home
def test_a_change_that_was_handed_over_is_taken_back(lived: Lived, name: str) -> None:
    life = lived(name)
    assert life.said["unapply"].code == 0, life.said["unapply"].error
    assert life.stock == FILES["stock.py"]


@each_ordinary_home
def test_calls_of_an_ended_plan_are_made_once_more(lived: Lived, name: str) -> None:
    life = lived(name)
    replayed = life.said["replay"]
    assert replayed.code == 0, replayed.error
    assert replayed.data["replay"]["is_same"]
    assert replayed.data["replay"]["tree"] == life.home.told["ended"]["changeset"]["tree"]


@each_ordinary_home
def test_a_plan_that_waits_goes_on(lived: Lived, name: str) -> None:
    life = lived(name)
    planned = life.said["strategize"]
    assert (planned.code, planned.data["state"]) == (0, "complete")
    if not name.startswith("0.1-"):  # which asked for no approval
        assert life.said["approve"].code == 0
        asked = life.said["go on"]
        assert (asked.code, asked.error["code"]) == (3, "approval_needed")
        assert (asked.data["phase"], asked.data["state"]) == ("execute", "processing")


@each_ordinary_home
def test_an_export_holds_the_whole_plan(lived: Lived, name: str) -> None:
    life = lived(name)
    assert life.said["export"].code == 0
    kept = json.loads((life.home.folder / "home" / "export.json").read_text())
    assert len(kept["events"]) == life.said["verify handed"].data["events"]
    assert (kept["problems"], kept["plan"]["changeset_id"]) == (
        [],
        life.home.told["handed"]["changeset_id"],
    )


@each_ordinary_home
def test_project_action_resource_and_invariant_are_there(lived: Lived, name: str) -> None:
    said = lived(name).said
    for kind, words in {
        "project": "shop",
        "action": "greet",
        "resource": "words",
        "invariant": "it stays small",
    }.items():
        assert said[kind].code == 0
        assert words in json.dumps(said[kind].data)


@each_home
def test_gc_returns_only_the_dead_environment(lived: Lived, name: str) -> None:
    collected = lived(name).said["gc"]
    assert collected.code == 0
    assert {each["family"] for each in collected.data["returned"]} <= {"environment"}


@each_ordinary_home
def test_doctor_finds_the_journal_whole(lived: Lived, name: str) -> None:
    findings = lived(name).said["doctor"].data["findings"]
    found = {each["name"]: each for each in findings}
    assert found["journal"]["is_good"], found["journal"]
    assert found["database"]["is_good"], found["database"]
