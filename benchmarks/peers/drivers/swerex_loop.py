"""The bare loop, its commands run by SWE-ReX's local deployment: `session` or `execute`."""

import asyncio
import sys

from bare_loop import turns
from swerex.deployment.local import LocalDeployment
from swerex.runtime.abstract import BashAction, Command, CreateBashSessionRequest


async def deployed():
    """Start a deployment with one shell."""
    deployment = LocalDeployment()
    await deployment.start()
    await deployment.runtime.create_session(CreateBashSessionRequest())
    return deployment


def main(way):
    """Take the steps, in one shell or each in its own."""
    loop = asyncio.new_event_loop()
    deployment = loop.run_until_complete(deployed())

    def session(command):
        action = BashAction(command=command, timeout=30)
        return loop.run_until_complete(deployment.runtime.run_in_session(action)).output

    def execute(command):
        wanted = Command(command=command, shell=True, timeout=30)  # noqa: S604 - an agent's call
        return loop.run_until_complete(deployment.runtime.execute(wanted)).stdout

    turns({"session": session, "execute": execute}[way])
    loop.run_until_complete(deployment.stop())


if __name__ == "__main__":
    main(sys.argv[1])
