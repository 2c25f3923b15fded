"""OpenHands' SDK with its terminal, kept on disk: the folder, and a conversation to go on with."""

import os
import sys
import uuid
from pathlib import Path

from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.tools.terminal import TerminalTool
from pydantic import SecretStr

CONVERSATION = uuid.UUID(int=1)


def main(folder, work):
    """Start the conversation, or go on with the one that is there."""
    llm = LLM(
        model="openai/scripted",
        base_url=os.environ["OPENAI_BASE_URL"],
        api_key=SecretStr("made-up"),
        usage_id="agent",
        input_cost_per_token=0.0,
        output_cost_per_token=0.0,
    )
    is_begun = Path(folder).is_dir()
    conversation = Conversation(
        agent=Agent(llm=llm, tools=[Tool(name=TerminalTool.name)]),
        workspace=work,
        persistence_dir=folder,
        conversation_id=CONVERSATION,
        max_iteration_per_run=10_000,
        visualizer=None,
    )
    if not is_begun:
        conversation.send_message("Take the steps.")
    conversation.run()
    conversation.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
