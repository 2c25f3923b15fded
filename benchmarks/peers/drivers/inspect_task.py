"""inspect_ai's own agent with its own shell tool in its local sandbox."""

from inspect_ai import Task, task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.tool import bash


@task
def steps():
    """One sample that takes the steps."""
    return Task(
        dataset=[Sample(input="Take the steps.")],
        solver=react(tools=[bash(timeout=30)]),
        sandbox="local",
    )
