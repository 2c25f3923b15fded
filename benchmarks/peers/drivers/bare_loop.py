"""The least that an agent can be: ask over HTTP, run the command, send the answer back.

The floor of what a step costs; nothing is guarded, written down or brought back.
"""

import http.client
import json
import os
import subprocess
import sys
from urllib.parse import urlsplit

TOOL = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a shell command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}


def turns(run):
    """Ask until the model calls no tool; `run` carries out a command and returns its output."""
    address = urlsplit(os.environ["OPENAI_BASE_URL"])
    connection = http.client.HTTPConnection(address.hostname, address.port)
    messages = [{"role": "user", "content": "Take the steps."}]
    while True:
        body = json.dumps({"model": "scripted", "messages": messages, "tools": [TOOL]})
        connection.request("POST", f"{address.path}/chat/completions", body)
        message = json.loads(connection.getresponse().read())["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return
        for call in message["tool_calls"]:
            output = run(json.loads(call["function"]["arguments"])["command"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})


def shell(command):
    """Run a command in a shell of its own."""
    return subprocess.run(  # noqa: S602 - what an agent's tool does
        command,
        shell=True,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ).stdout


if __name__ == "__main__":
    sys.exit(turns(shell))
