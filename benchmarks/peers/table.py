"""Prints the figures: who took how long, held and wrote how much, and lost what.

Each target of ours stands below with what was measured; none is left out for being missed.
"""

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.peers.figures import SPANS, Figures

__all__ = ["density_rows", "kill_rows", "printed", "step_rows", "targets"]

AGENTS = ("mini-swe-agent", "inspect_ai", "OpenHands")  # with a loop of their own
MEMORY_MB = 120
WAYS = {"alone": 4, "shell": 100}  # of calling, and by how much ours is to be faster
Row = Sequence[str]


def printed(rows: Sequence[Row]) -> str:
    """Return a Markdown table; the first row is its head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"| {' | '.join(cells)} |")
        if number == 0:
            rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
            lines.append(f"| {' | '.join(rule)} |")
    return "\n".join(lines)


def _said(value: float | None, form: str = ".1f") -> str:
    return "-" if value is None else format(value, form)


def step_rows(all_figures: Sequence[Figures]) -> list[Row]:
    """What a step takes."""
    head = ["a step", "walls", "ms at 10", "at 100", "at 1,000", "mean", "CPU ms at 100"]
    head += ["at 1,000", "KB to disk at 100", "at 1,000", "MB peak (PSS)", "first request s"]
    return [head, *(_step_row(figures) for figures in all_figures)]


def _step_row(figures: Figures) -> Row:
    peak = figures.peak_mb()
    return [
        figures.name,
        figures.walls,
        *(_said(figures.at_ms(step)) for step in (10, 100, 1000)),
        _said(figures.mean_ms()),
        *(_said(figures.cpu_ms(until)) for until in (100, 1000)),
        *(_said(figures.disk_kb(until)) for until in (100, 1000)),
        f"{peak[0]:.0f} ({peak[1]:.0f})" if peak else "-",
        _said(figures.first_request_s(), ".2f"),
    ]


def kill_rows(all_figures: Sequence[Figures], killed_at: int) -> list[Row]:
    """What a kill -9 costs."""
    head = ["kill -9 in a step", "keeps", "goes on", "request again s"]
    head += [f"of {killed_at - 1} steps lost", "effects doubled", "processes left"]
    return [head, *(_kill_row(figures) for figures in all_figures)]


def _kill_row(figures: Figures) -> Row:
    killed = figures.killed
    if killed is None:
        return [figures.name, figures.keeps, "-", "-", "-", "-", "-"]
    goes_on = figures.again and not killed.steps_lost
    doubled = "its end was not reached"
    if killed.effects:
        doubled = f"{killed.effects[1]} of {killed.effects[0]} lines"
    return [
        figures.name,
        figures.keeps,
        "yes" if goes_on else "starts anew",
        _said(killed.answer_s, ".2f"),
        str(killed.steps_lost),
        doubled,
        str(killed.survivors),
    ]


def density_rows(density: Mapping[str, Mapping[str, float]], count: int) -> list[Row]:
    """How much many places do together."""
    head = [f"{count} environments at once", "ready s", "calls/s, own shell", "calls/s, one shell"]
    rows = [
        [name, _said(its.get("ready_s")), *(_said(its.get(way), ".0f") for way in WAYS)]
        for name, its in density.items()
    ]
    return [head, *rows]


def targets(
    all_figures: Sequence[Figures], density: Mapping[str, Mapping[str, float]]
) -> Iterator[tuple[str, str, bool]]:
    """Yield each target of ours, what was measured, and whether it is met."""
    ours = next((it for it in all_figures if it.name == "Patchyard" and it.trials), None)
    if ours is None:
        return
    peers = [it for it in all_figures if it.name.startswith(AGENTS)]
    for step in (50, 100, 1000):
        own = ours.at_ms(step)
        timed = [(it.at_ms(step), it.name) for it in peers]
        known = [(value, name) for value, name in timed if value is not None]
        if own and known:
            value, name = min(known)
            yield (
                f"at step {step} a quarter of the fastest peer's time",
                f"{own:.1f} ms, {name} {value:.1f} ms: {value / own:.1f} times"
                + _by_cpu(ours, peers, step),
                value / own >= 4,
            )
        for value, name in known:
            if own and name.startswith("OpenHands"):
                words = f"{own:.1f} ms, {value:.1f} ms: {value / own:.0f} times"
                yield f"at step {step} a thirtieth of {name}", words, value / own >= 30
    peak = ours.peak_mb()
    if peak:
        words = f"{peak[0]:.0f} MB of RSS, {peak[1]:.0f} MB of PSS"
        yield f"memory of engine and environment {MEMORY_MB} MB", words, peak[0] <= MEMORY_MB
    yield from _density_targets(density)


def _by_cpu(ours: Figures, peers: Sequence[Figures], step: int) -> str:
    """Return the same comparison in processor time, which a busy machine leaves alone."""
    if step not in SPANS:
        return ""
    own, least = ours.cpu_ms(step), [it.cpu_ms(step) for it in peers]
    known = [value for value in least if value is not None]
    if not own or not known:
        return ""
    return f" ({min(known) / own:.1f} times in processor time)"


def _density_targets(
    density: Mapping[str, Mapping[str, float]],
) -> Iterator[tuple[str, str, bool]]:
    ours = density.get("Patchyard, journalled", {})
    for name, peer in density.items():
        for way, times in WAYS.items():
            if name.startswith("SWE-ReX") and way in peer and way in ours:
                ratio = ours[way] / peer[way]
                words = f"{ours[way]:.0f}/s, {peer[way]:.0f}/s: {ratio:.1f} times"
                yield f"{times} times the calls of {name} ({way})", words, ratio >= times
