"""The table by which a toolbox's frames are checked: it has each of them, no wrong one passes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from patchyard import toolbox
from patchyard.clients.frame_claims import FRAMES, checked
from patchyard.toolbox.wire import PROTOCOL

SAID = re.compile(r'"say": "([a-z]+)"')
MODULES = ("connection", "server")  # all that speaks to an engine's client


def test_every_frame_that_a_toolbox_says_is_in_the_table() -> None:
    folder = Path(toolbox.__path__[0])
    texts = [(folder / f"{name}.py").read_text(encoding="utf-8") for name in MODULES]
    assert {word for text in texts for word in SAID.findall(text)} == set(FRAMES)


@pytest.mark.parametrize("say", FRAMES)
def test_a_frame_that_is_right_is_taken_without_what_an_older_toolbox_leaves_out(say: str) -> None:
    whole: dict[str, Any] = {"say": say}
    whole |= {name: json.loads(field.sample) for name, field in FRAMES[say].items()}
    least = {name: v for name, v in whole.items() if name == "say" or FRAMES[say][name].is_needed}
    assert (checked(whole), checked(least)) == (say, say)
    for name in set(least) - {"say"}:
        with pytest.raises(ValueError, match=f"`{name}` of a frame that says {say}"):
            checked({key: value for key, value in least.items() if key != name})


@pytest.mark.parametrize("say", [None, 7, ["hello"], {}, "progress"])
def test_a_frame_of_no_kind_says_nothing(say: object) -> None:
    assert checked({"say": say, "call_id": "c"}) == ""


@pytest.mark.parametrize(
    "frame",
    [
        {"say": "listening", "port": True},
        {"say": "listening", "port": -1},
        {"say": "listening", "port": 65_536},
        {"say": "hello", "protocol": True},
        {"say": "hello", "protocol": 1.0},
        {"say": "hello", "protocol": PROTOCOL, "pid": -1},
        {"say": "hello", "protocol": PROTOCOL, "shell": "x" * 100_000},
        {"say": "hello", "protocol": PROTOCOL, "walls": []},
        {"say": "output", "call_id": "c", "stream": ["stdout"], "text": "x"},
        {"say": "result", "call_id": "c", "result": {"a": [[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]}},
        {"say": "error", "message": [[]]},
    ],
)
def test_a_value_that_does_not_belong_there_is_refused(frame: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="cannot be that"):
        checked(frame)
