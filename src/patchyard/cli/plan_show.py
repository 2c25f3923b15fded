"""`agents plan status|watch|tree|explain|events|logs|errors|route`: what only looks."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from patchyard.cli.cataloguing import fields
from patchyard.cli.event_words import event_words
from patchyard.cli.json_lines import JsonLines
from patchyard.cli.looking import look_at
from patchyard.cli.opening import opened
from patchyard.cli.outcome import (
    JSON,
    Interrupted,
    Outcome,
    carry_out,
    counted,
    format_option,
    is_open,
    paint,
    visible,
)
from patchyard.cli.plan_act import plan_argument
from patchyard.cli.progress import SpokenLines
from patchyard.cli.queued import is_awaited, owner_data, places_in_queue, standing_line
from patchyard.cli.screen import plan_screen
from patchyard.clients.pool_boards import pools_of
from patchyard.config import places
from patchyard.domain.codec import to_json
from patchyard.domain.decision import Decision
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.events import Body, ToolCallRequested, ToolCallSettled
from patchyard.domain.marks import Mark
from patchyard.domain.plan import State
from patchyard.domain.routing import Route, route_of
from patchyard.engine.conditions import conditions
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.products import plans_beside
from patchyard.engine.report import plan_data
from patchyard.engine.rolling_back import told
from patchyard.engine.waiting import is_held

EVENT_SHOWN = 160  # characters of an event's fields in a list
FOLLOW_S = 0.2  # between two looks at the journal


def _local(at: float, form: str) -> str:
    """Return a time as the clock on the user's wall shows it."""
    return datetime.fromtimestamp(at, UTC).astimezone().strftime(form)


@click.command(epilog="Example: agents plan status @last --format json")
@plan_argument
@format_option
def status(plan_id: str, output_format: str) -> None:
    """Show where a plan stands and what it waits for."""
    look_at("plan status", plan_id, output_format, _status)


async def _status(equipment: Equipment, ledger: Ledger) -> Outcome:
    data = await plan_data(ledger)
    text = plan_screen(data) + _kept(ledger.state.checkpoints)
    data["execution"]["environments"] = await conditions(equipment, ledger)
    text += _environments(data["execution"]["environments"])
    waiting = data["waiting"]
    place = (await places_in_queue(equipment)).get(ledger.plan_id)
    data["queue"] = place.data() if place else None
    spec = ledger.state.known
    pools = pools_of(places(os.environ).home, spec.project or spec.repository)
    data["pools"] = [to_json(pool) for pool in pools]
    rows = [f"{pool.said} (worker {pool.worker})" for pool in pools]
    text += "".join(f"\n  {paint('pool'.ljust(8), 'cyan')} {visible(row)}" for row in rows)
    owner = await equipment.claims.holder(ledger.plan_id)
    data["owner"] = owner_data(owner)
    text += standing_line(place, owner)
    if place is not None and not place.worker:
        data["waiting"] = {"for": place.waits_for, "since": place.job.queued}
    elif waiting and is_held(ledger.state):
        text += f"\n  {paint('waiting', 'cyan')}  for {visible(waiting['for'])}"
    elif waiting and owner is None:
        data["waiting"] = {**waiting, "for": "somebody to resume it: nobody works on it"}
        onward = f"nobody works on it: agents plan resume {ledger.plan_id}"
        text += f"\n  {paint('waiting', 'cyan')}  {onward}"
    elif waiting:
        since = _local(waiting["since"], "%H:%M:%S")
        text += f"\n  {paint('waiting', 'cyan')}  for {visible(waiting['for'])} since {since}"
    return Outcome(data=data, text=text)


def _environments(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(
        f"\n  {paint('in'.ljust(8), 'cyan')} {row['resource'] or row['kind']}, {_condition(row)}"
        for row in rows
    )


def _condition(row: Mapping[str, Any]) -> str:
    if row["is_alive"] is None:
        return "which cannot say how it is"
    if not row["is_alive"]:
        ended = f", ended by the limit `{row['limit']}`" if row["limit"] else ""
        return f"which is gone{ended}"
    since = f" since {_local(row['since'], '%H:%M:%S')}" if row["since"] else ""
    return f"up{since}" + ("" if row["answers"] else ", and does not answer")


def _kept(marks: Sequence[Mark]) -> str:
    if not marks:
        return ""
    return (
        f"\n  {paint('kept', 'cyan')}     {counted(len(marks), 'checkpoint')},"
        f" the last {told(marks[-1])}"
    )


@click.command(epilog="Example: agents plan watch @last")
@plan_argument
@format_option
def watch(plan_id: str, output_format: str) -> None:
    """Follow a plan until it stops."""
    _follow("plan watch", plan_id, output_format, after=None)


@click.command(epilog="Example: agents plan events @last --follow")
@plan_argument
@click.option("--follow", is_flag=True, help="Go on until the plan stops.")
@format_option
def events(plan_id: str, output_format: str, *, follow: bool) -> None:
    """Print what happened, in order."""
    if follow:
        _follow("plan events", plan_id, output_format, after=0)
    look_at("plan events", plan_id, output_format, _events)


async def _events(_equipment: Equipment, ledger: Ledger) -> Outcome:
    rows = []
    lines = []
    for version, at, event in await ledger.events():
        body = to_json(event)
        rows.append({"version": version, "at": at, "event": type(event).__name__, **body})
        clock = _local(at, "%H:%M:%S.%f")[:-3]
        about = event_words(event, EVENT_SHOWN)
        lines.append(f"{version:5} {clock} {type(event).__name__:20} {about}")
    return Outcome(data={"plan_id": ledger.plan_id, "events": rows}, text="\n".join(lines))


def _follow(command: str, plan_id: str, output_format: str, *, after: int | None) -> None:
    is_json = output_format == JSON

    async def work() -> Outcome:
        async with opened(plan_id) as (equipment, found):
            ledger = await Ledger.open(equipment.store, equipment.clock, found)
            try:
                await _tail(equipment, ledger, is_json=is_json, after=after)
            except asyncio.CancelledError:
                gone = Interrupted("followed no longer; the plan itself goes on")
                return Outcome(data={"plan_id": found}, error=gone)
            ledger = await Ledger.open(equipment.store, equipment.clock, found)
            data = await plan_data(ledger)
            return Outcome(data=data, text=plan_screen(data))

    carry_out(command, output_format, work, stream=True)


async def _tail(equipment: Equipment, ledger: Ledger, *, is_json: bool, after: int | None) -> None:
    spoken = SpokenLines()
    told = JsonLines(plan_id=ledger.plan_id)
    seen = ledger.state.version if after is None else after
    rested_at = -1
    while True:
        for version, at, event in await ledger.events(after=seen):
            if is_json:
                told(event, at=at)
            else:
                spoken(event)
            seen = version
        state = (await Ledger.open(equipment.store, equipment.clock, ledger.plan_id)).state
        is_running = state.state in {State.PROCESSING, State.QUEUED}
        if state.version == seen and not is_running:
            if rested_at == seen or not await equipment.claims.holder(ledger.plan_id):
                return
            rested_at = seen  # its owner may be between two phases: another look shows that
        elif state.version == seen and not await is_awaited(equipment, ledger.plan_id):
            return  # nobody works on it: it would be waited for without end
        await asyncio.sleep(FOLLOW_S)


@click.command(epilog="Example: agents plan tree @last")
@plan_argument
@format_option
def tree(plan_id: str, output_format: str) -> None:
    """Draw the decision tree; below it the plans in which other roles worked for this one."""
    look_at("plan tree", plan_id, output_format, _tree)


async def _tree(_equipment: Equipment, ledger: Ledger) -> Outcome:
    decisions = ledger.state.decisions
    lines: list[str] = []
    for root in [d for d in decisions if d.parent_id is None]:
        _branch(decisions, root, lines, depth=0)
    beside = plans_beside(ledger.state)
    lines += [f"{each['role']}: {each['did']}, plan {each['plan_id']}" for each in beside]
    data = {
        "plan_id": ledger.plan_id,
        "decisions": [to_json(d) for d in decisions],
        "colleagues": beside,
    }
    return Outcome(data=data, text="\n".join(lines) or "no decisions yet")


def _branch(decisions: Sequence[Decision], node: Decision, lines: list[str], *, depth: int) -> None:
    first = node.choice.splitlines()[0] if node.choice else ""
    lines.append(f"{'  ' * depth}{node.decision_id[-6:]} {node.kind}: {visible(first)[:90]}")
    for child in [d for d in decisions if d.parent_id == node.decision_id]:
        _branch(decisions, child, lines, depth=depth + 1)


@click.command(epilog="Example: agents plan explain @last 7K2M9Q")
@plan_argument
@click.argument("decision", required=False)
@format_option
def explain(plan_id: str, decision: str | None, output_format: str) -> None:
    """Explain DECISION (the end of its id is enough), or all of them."""

    async def look(_equipment: Equipment, ledger: Ledger) -> Outcome:
        found = [d for d in ledger.state.decisions if _is_meant(d, decision)]
        if not found:
            known = ", ".join(d.decision_id[-6:] for d in ledger.state.decisions)
            raise UsageError(f"no decision {decision!r} in this plan", hint=f"known: {known}")
        text = "\n\n".join(_explained(d) for d in found)
        return Outcome(data={"decisions": [to_json(d) for d in found]}, text=text)

    look_at("plan explain", plan_id, output_format, look)


def _is_meant(decision: Decision, text: str | None) -> bool:
    return text is None or (text != "" and decision.decision_id.endswith(text.upper()))


def _explained(decision: Decision) -> str:
    rows = [
        f"{decision.decision_id} {decision.kind}",
        f"  question      {visible(decision.question)}",
        f"  choice        {visible(decision.choice)}",
    ]
    if decision.alternatives:
        rows.append(f"  alternatives  {visible('; '.join(decision.alternatives))}")
    if decision.confidence is not None:
        rows.append(f"  confidence    {decision.confidence:.2f}")
    if decision.rationale:
        rows.append(f"  rationale     {visible(decision.rationale)}")
    return "\n".join(rows)


@click.command(epilog="Example: agents plan logs @last 01J…")
@click.argument("plan_id", metavar="ID")
@click.argument("call")
@format_option
def logs(plan_id: str, call: str, output_format: str) -> None:
    """Print the whole result of tool call CALL (the end of its id is enough)."""

    async def look(_equipment: Equipment, ledger: Ledger) -> Outcome:
        asked, settled = await _call(ledger, call)
        data = {
            "call_id": asked.call_id,
            "name": asked.name,
            "arguments": await ledger.value(asked.arguments),
            "environment": str(asked.kind) if asked.kind else None,
            "level": asked.level,
            "success": settled.success if settled else None,
            "error": settled.error if settled else None,
            "message": settled.message if settled else "not settled yet",
            "result": await ledger.value(settled.data if settled else Body()),
        }
        is_shown = is_open(sys.stdout) and sys.stdout.isatty()
        raw = None if is_shown else _exact(_log_text(data, str))
        return Outcome(data=data, text=_log_text(data, visible), raw=raw)

    look_at("plan logs", plan_id, output_format, look)


async def _call(ledger: Ledger, text: str) -> tuple[ToolCallRequested, ToolCallSettled | None]:
    asked: dict[str, ToolCallRequested] = {}
    settled: dict[str, ToolCallSettled] = {}
    for _, _, event in await ledger.events():
        if isinstance(event, ToolCallRequested) and text and event.call_id.endswith(text.upper()):
            asked[event.call_id] = event
        elif isinstance(event, ToolCallSettled):
            settled[event.call_id] = event
    if len(asked) != 1:
        many = f"{text} fits {len(asked)} calls" if asked else f"no call {text!r} in this plan"
        raise UsageError(many, hint="`agents plan events` lists the calls with their whole ids")
    ((call_id, found),) = asked.items()
    return found, settled.get(call_id)


def _exact(text: str) -> bytes:
    """Return the bytes that a tool gave; what could be none of them is replaced."""
    bytes_only = re.sub("[\ud800-\udc7f\udd00-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
    return bytes_only.encode("utf-8", "surrogateescape")


def _log_text(data: dict[str, Any], shown: Callable[[str], str]) -> str:
    result = data["result"] or {}
    lines = [f"{data['call_id']} {data['name']}: {shown(data['message'])}"]
    lines.append(shown(json.dumps(data["arguments"], ensure_ascii=False)))
    for name, value in result.items():
        whole = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text = shown(whole)
        lines.append(f"--- {name}\n{text}" if "\n" in text else f"{name}: {text}")
    return "\n".join([*lines, ""])


@click.command(epilog="Example: agents plan errors @last")
@plan_argument
@format_option
def errors(plan_id: str, output_format: str) -> None:
    """Show why a plan stopped, with everything known about it."""
    look_at("plan errors", plan_id, output_format, _errors)


async def _errors(_equipment: Equipment, ledger: Ledger) -> Outcome:
    failure = ledger.state.failure
    if failure is None:
        is_cancelled = ledger.state.state == State.CANCELLED
        text = f"no error: it was cancelled; `agents plan resume {ledger.plan_id}` carries it on"
        return Outcome(data={"errors": []}, text=text if is_cancelled else "no error")
    rows = [f"{failure.phase}: {visible(failure.message)}"]
    if failure.hint:
        rows.append(f"hint: {visible(failure.hint)}")
    rows += [fields({key: value}) for key, value in failure.details.items()]
    return Outcome(data={"errors": [to_json(failure)]}, text="\n".join(rows))


@click.command(epilog="Example: agents plan route @last execute_command")
@plan_argument
@click.argument("tool", required=False)
@format_option
def route(plan_id: str, tool: str | None, output_format: str) -> None:
    """Say where each tool (or TOOL) runs, and which level of the chain decided."""

    async def look(equipment: Equipment, ledger: Ledger) -> Outcome:
        spec, fallen = ledger.state.known, ledger.state.fallen
        known = equipment.tools(spec.repository)
        if tool and tool not in known:
            raise UnknownName.among("tool", tool, known)
        names = [tool] if tool else sorted(known)
        routes = {name: route_of(spec, name, fallen=fallen) for name in names}
        rows = [{"tool": name, **to_json(route)} for name, route in routes.items()]
        lines = [
            f"{name:18} {_where(route):10} {route.level}: {route.reason}"
            for name, route in routes.items()
        ]
        return Outcome(data={"routes": rows}, text="\n".join(lines))

    look_at("plan route", plan_id, output_format, look)


def _where(route: Route) -> str:
    return f"{route.resource} ({route.kind})" if route.resource else str(route.kind)


__all__ = [
    "EVENT_SHOWN",
    "FOLLOW_S",
    "errors",
    "events",
    "explain",
    "logs",
    "route",
    "status",
    "tree",
    "watch",
]
