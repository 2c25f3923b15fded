"""Every command of `agents`: carried out in armed checkouts, or why it touches no repository.

A line is a command as a person types it. A number before it is the exit code that is expected, `&`
behind it lets it go on beside the following ones until `end`, which waits until the last plan is
done. Values in braces are filled in, words that begin with @ by `armed_program`, which carries the
lines out.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from patchyard.cli.main import agents

__all__ = ["CHAPTERS", "LOSING", "UNTOUCHING", "Step", "commands", "named", "steps"]

RUN = "run task --model scripted:{script} --validate 'test -e made'"
CHAPTERS: Mapping[str, str] = {
    "looking": """
doctor
init --force
trust
config show
config check
role list
role show developer
mcp list
model list
model check scripted:{script}
env list
env check host
disk
trust --revoke
""",
    "naming": """
resource add git-checkout shop --path {repo}
resource show shop
resource list
env check shop
project create named --repo {repo}
project link-resource named shop
project context set validate 'test -e made'
project context show
project show
project list
project unlink-resource named shop
resource remove shop
project delete named
""",
    "handing over": f"""
{RUN} --in host
plan diff
plan apply
plan unapply
plan apply --to merge
plan unapply
plan apply --to branch --name side
plan unapply
plan apply --to patch --name {{folder}}/patch
plan unapply
""",
    "following": f"""
{RUN} --in host --ref HEAD
plan status
plan list
plan watch
plan tree
plan explain
plan errors
plan events
plan logs @last @call
plan route
plan verify
plan export --to {{folder}}/plan.json
gc
""",
    "beginning anew": f"""
{RUN} --in host --base head
plan apply --to merge
plan verify
plan resume
plan replay --yes
plan fork
{RUN} --in host --role developer
""",
    "steering": """
project create steered --repo {repo}
action create --file {action}
action list
action show trial
invariant add 'it stays' --check 'test -e a.txt' --action trial
invariant list
plan use trial steered --in host --agent model --model scripted:{longer} --no-strategize
plan strategize
plan execute
plan shell < 'test -e made'
plan rollback @last @mark --yes
plan resume
plan correct --mode append --guidance more
plan resume
plan revert --to-phase execute
plan limit --max-steps +10
plan prompt @last more
plan execute
plan retry @last again
invariant remove 01
project delete steered
""",
    "asking": f"""
3: {RUN} --in host --automation-profile supervised
plan approve
plan pause
plan resume
3: {RUN} --in host --automation-profile supervised
plan reject @last no
plan cancel
""",
    "serving": f"""
{RUN} --in process --allow-host git --detach
worker --name armed &
end
mcp serve --in host --model scripted:{{script}} --allow-apply
XDG_CONFIG_HOME={{folder}}/settings mcp check h --in host
XDG_CONFIG_HOME={{folder}}/settings mcp check h --mount {{folder}}/server.py:ro
""",
}
LOSING = f"""
{RUN} --in host
move {{kept}} {{object}}
{RUN} --in host
move {{object}} {{kept}}
plan diff
plan apply
plan unapply
plan apply --to merge
plan unapply
plan apply --to branch --name side
plan unapply
plan apply --to patch --name {{folder}}/patch
plan unapply
plan shell < 'test -e made'
plan replay --yes
plan fork
plan resume
plan verify
gc
"""
"""First in a partial clone: a run is refused, and a plan is made while the clone is whole."""
UNTOUCHING: Mapping[str, str] = {
    "demo": "works on a repository of its own",
    "env probe": "attacks bait of its own",
    "resource rebuild": "takes away images that we built",
    "resource stop": "ends environments by their names",
}
"""What is not carried out."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One line."""

    words: tuple[str, ...]
    environ: Mapping[str, str]  # further variables
    code: int = 0
    typed: str = ""  # on standard input
    is_beside: bool = False

    @property
    def known(self) -> Mapping[str, Any]:
        """All of it, for JSON."""
        return {**vars(self), "words": [*self.words], "environ": {**self.environ}}


def steps(chapter: str, values: Mapping[str, str]) -> Iterator[Step]:
    """Yield what the lines of a chapter say."""
    for line in chapter.format_map(values).splitlines():
        code, _, rest = line.rpartition(": ") if line[:1].isdigit() else ("0", "", line)
        command, _, typed = rest.partition(" < ")
        words = shlex.split(command)
        environ = {}
        while words and "=" in words[0]:
            name, _, environ[name] = words.pop(0).partition("=")
        if words:
            yield Step(
                words=tuple(word for word in words if word != "&"),
                environ=environ,
                code=int(code),
                typed="".join(shlex.split(typed)),
                is_beside=words[-1] == "&",
            )


def named(words: Sequence[str]) -> str:
    """Return the command that words begin with; empty where there is none of that name."""
    every = commands()
    found = (" ".join(words[:count]) for count in range(1, len(words) + 1))
    return next((name for name in found if name in every), "")


def commands() -> frozenset[str]:
    """Return the full name of every command there is."""
    return frozenset(_below(agents, (), click.Context(agents)))


def _below(group: click.Command, path: tuple[str, ...], context: click.Context) -> Iterator[str]:
    if not isinstance(group, click.Group):
        yield " ".join(path)
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from _below(command, (*path, name), click.Context(command, parent=context))
