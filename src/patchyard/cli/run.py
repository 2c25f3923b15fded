"""`agents run`: the whole job in one line."""

import functools
import os
import re
import sys
from pathlib import Path
from typing import IO, Any

import click

from patchyard.cli.outcome import JSON, Outcome, carry_out, format_option, is_open
from patchyard.domain.durations import parse_duration
from patchyard.domain.errors import UsageError

ADDRESS = re.compile(r"https?://\S+")
TASK_BYTES = 1_000_000  # a longer task text is refused
MORE = "may be repeated"


MOST_PRIORITY = 1_000_000


@click.command(epilog="Example: agents run 'mend the failing test' --validate 'pytest -q'")
@click.argument("task")
@click.option("--repo", type=str, default=".", help="The repository: a path, or a URL to clone.")
@click.option("--ref", help="Start from this commit, branch or tag, not the checkout as it is.")
@click.option("--base", "base", type=click.Choice(["head"]), help="Start from HEAD.")
@click.option("--agent", help="model (default) or recipe.")
@click.option("--role", help="developer (default), tester, reviewer, architect or yours.")
@click.option("--model", "model_name", help="PROVIDER:MODEL, recorded:FILE or scripted:FILE.")
@click.option("--in", "--execution-environment", "kind", help="host, process (default), ...")
@click.option("--setup", multiple=True, help=f"Command that installs dependencies; {MORE}.")
@click.option("--setup-share", help="tree (default); lockfiles: setup sees, and is kept by, these.")
@click.option(
    "--validate", multiple=True, help=f"Command that proves the result; '' for none; {MORE}."
)
@click.option("--apply", "apply_to", help="none (default), worktree, branch, merge, patch.")
@click.option(
    "--env", "variables", multiple=True, help=f"NAME[=VALUE], readable by the agent; {MORE}."
)
@click.option(
    "--allow-host", "allow_hosts", multiple=True, help=f"HOST[:PORT], index or git; {MORE}."
)
@click.option(
    "--secret", "secrets", multiple=True, help=f"NAME@HOST: used there, never read; {MORE}."
)
@click.option("--mount", "mounts", multiple=True, help=f"PATH[:ro|rw] to show inside; {MORE}.")
@click.option(
    "--allow-path", "allow_paths", multiple=True, help=f"Let this protected path pass; {MORE}."
)
@click.option("--budget-usd", type=float, help="Money; 5 by default.")
@click.option("--max-tokens", type=int, help="Tokens in and out together.")
@click.option("--max-steps", type=int, help="Turns of the actor; 200 by default.")
@click.option("--timeout", help="Time over all phases: 90s, 30m, 1h (default); 10 is 10s.")
@click.option(
    "--limit", "limits", multiple=True, help=f"Of environments: memory=2G, cpus=1.5, …; {MORE}."
)
@click.option("--rounds", type=int, help="Failed proofs given back; 3 by default.")
@click.option("--record", type=str, help="Write every model request and reply to this file.")
@click.option("--automation-profile", help="Where it asks: manual, supervised … full-auto.")
@click.option("--require-changes", is_flag=True, help="Exit 1 when nothing changed.")
@click.option("-d", "--detach", is_flag=True, help="Queue it for `agents worker`; return at once.")
@click.option(
    "--priority",
    type=click.IntRange(-MOST_PRIORITY, MOST_PRIORITY),
    default=0,
    show_default=False,
    help="With -d: higher is taken first; 0 else.",
)
@click.option("--not-before", help="With -d: wait so long at least, like 90s, 30m, 1h.")
@click.option("--stream", is_flag=True, help="Show progress while it happens.")
@format_option
def run(output_format: str, **options: Any) -> None:
    """Carry out TASK (text, -, @FILE) on this repository: planned, sandboxed, proven."""
    is_json = output_format == JSON
    stream = bool(options["stream"])
    work = functools.partial(_run, options, is_json=is_json, stream=stream)
    carry_out("run", output_format, work, stream=stream)


async def _run(options: dict[str, Any], *, is_json: bool, stream: bool) -> Outcome:
    from patchyard.cli.working import run_plan  # noqa: PLC0415 - heavy, and only now needed
    from patchyard.intake import Asked  # noqa: PLC0415 - likewise

    asked = Asked(
        task=read_task(options["task"]),
        repository=options["repo"],
        ref=options["ref"] or options["base"],
        agent=options["agent"],
        role=options["role"],
        model=options["model_name"],
        kind=options["kind"],
        setup=options["setup"],
        setup_share=options["setup_share"],
        validate=options["validate"],
        apply_to=options["apply_to"],
        variables=options["variables"],
        mounts=options["mounts"],
        allow_paths=options["allow_paths"],
        allow_hosts=options["allow_hosts"],
        secrets=options["secrets"],
        usd=options["budget_usd"],
        tokens=options["max_tokens"],
        steps=options["max_steps"],
        seconds=parse_duration(options["timeout"]) if options["timeout"] else None,
        limits=options["limits"],
        rounds=options["rounds"],
        record_to=options["record"],
        automation_profile=options["automation_profile"],
        requires_changes=options["require_changes"],
    )
    environ = dict(os.environ)
    if not options["detach"]:
        if options["priority"] or options["not_before"]:
            raise UsageError("--priority and --not-before are for queued plans", hint="add -d")
        return await run_plan(asked, environ, is_json=is_json, stream=stream)
    from patchyard.cli.queued import queue_plan  # noqa: PLC0415 - only with -d

    delay_s = parse_duration(options["not_before"]) if options["not_before"] else 0.0
    return await queue_plan(asked, environ, priority=options["priority"], delay_s=delay_s)


def read_task(text: str) -> str:
    """Return the task that TASK names: the text itself, standard input, or a file."""
    if text == "-":
        task = _decoded(sys.stdin.buffer, "standard input") if is_open(sys.stdin) else ""
    elif text.startswith("@"):
        try:
            with Path(text[1:]).open("rb") as file:
                task = _decoded(file, text[1:])
        except OSError as error:
            raise UsageError(
                f"the task file {text[1:]} cannot be read: {error.strerror}"
            ) from error
    else:
        task = text
    if not task.strip():
        raise UsageError("the task is empty", hint="say what is to be done: agents run 'mend …'")
    if ADDRESS.fullmatch(task.strip()):
        raise UsageError(
            "an address alone is no task: this version fetches no issue from a forge",
            hint="give the issue's text: as it is, @FILE, or - for standard input",
        )
    return task


def _decoded(file: IO[bytes], name: str) -> str:
    data = file.read(TASK_BYTES + 1)
    if len(data) > TASK_BYTES:
        raise UsageError(f"the task in {name} is longer than {TASK_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"the task in {name} cannot be read: it is not UTF-8") from error


__all__ = ["ADDRESS", "MORE", "TASK_BYTES", "read_task", "run"]
