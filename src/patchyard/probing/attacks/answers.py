"""Forged answers of the toolbox."""

from patchyard.probing.attack import Attack, Call, Group, Order, Where
from patchyard.probing.evidence import forged, said


def _frames(name: str, title: str, forgery: str) -> Attack:
    return Attack(
        name=f"answer-{name}",
        group=Group.ANSWERS,
        title=title,
        evidence=said,
        where=Where.ENGINE,
        options={"forgery": forgery},
    )


ATTACKS = (
    Attack(
        name="answer-printed",
        group=Group.ANSWERS,
        title="print an answer to another call, to every descriptor",
        script="print_frames",
        calls=(Call(op="execute_command", args={"command": "sleep 0.6"}, call_id="{other_call}"),),
        order=Order.BESIDE,
        evidence=forged,
    ),
    Attack(
        name="toolbox-spoken-to",
        group=Group.ANSWERS,
        title="speak to the toolbox as the engine does",
        script="speak_to_toolbox",
        evidence=said,
    ),
    _frames("too-large", "answer with a frame without end", "too_large"),
    _frames("malformed", "answer with what is no JSON", "malformed"),
    _frames("nested", "answer with a result nested too deep", "nested"),
    _frames("shape", "answer with a result of another shape", "shape"),
    _frames("other-call", "answer for another call", "other_call"),
    _frames("twice", "answer twice, the second time otherwise", "twice"),
    _frames("protocol", "speak another protocol", "protocol"),
)

__all__ = ["ATTACKS"]
