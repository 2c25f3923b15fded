"""Toolboxes that lie: what each says in place of the truth, and the code that says it.

A liar is our own toolbox with a connection that follows a script: the script comes as the command
of a call, which a shell takes for a comment. So one table of lies serves every kind.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchyard.clients import toolbox_options
from patchyard.clients.frame_claims import FRAMES
from patchyard.toolbox.wire import HEADER, MAX_FRAME_BYTES, PROTOCOL

__all__ = [
    "ANY",
    "BROKEN",
    "HONEST",
    "IGNORED",
    "LATE",
    "LIES",
    "ODD",
    "SETTLED",
    "SOON_S",
    "Lie",
    "at_greetings",
    "lying_code",
]

BROKEN = "broken"  # the environment is given up, with a word about its toolbox
LATE = "late"  # likewise, once the time of the call is over
IGNORED = "ignored"  # the honest answer that follows counts
SETTLED = "settled"  # it is an answer, whose fields are claims
ANY = "any"  # one of these, and nothing else

CODE = r'''

import array as _array
import json as _json
import socket as _socket

_Honest = Connection
_armed = []


class Connection(_Honest):
    """Says what a script wants. The script comes with a call, or was kept for the next greeting."""

    def __init__(self, peer, loop, on_message, on_closed):
        self._honest = on_message
        self._steps = []
        self._is_mute = False
        super().__init__(peer, loop, self._hear, on_closed)

    def _hear(self, connection, message):
        do, args = message.get("do"), message.get("args")
        command = args.get("command") if isinstance(args, dict) else None
        if self._is_mute:
            return
        if do in ("hello", "listen") and _armed:
            self._begin(_armed.pop(), message)
        elif do == "call" and isinstance(command, str) and command.startswith("#lie "):
            self._begin(_json.loads(command[5:]), message)
        else:
            self._honest(connection, message)

    def _begin(self, steps, message):
        self._steps = [dict(step) for step in steps]
        self._step(message)

    def _step(self, message):
        while self._steps and self._is_open:
            step = self._steps[0]
            if step["do"] == "honest":
                self._honest(self, message)
            elif step["do"] == "arm":
                _armed.extend([step["steps"]] * step["times"])
            elif step["do"] == "close":
                self.close()
            elif step["do"] == "fall silent":
                self._is_mute = True
            elif step["do"] == "wait":
                self._steps.pop(0)
                self._loop.later(0.05, lambda: self._step(message))
                return
            else:
                data = self._made(step, message)
                if step.get("fds"):
                    self._send_along(data, step["fds"])
                else:
                    self.send(data)
                step["times"] = step.get("times", 1) - 1
                if step["times"]:
                    if len(self._pending) > 1024 * 1024 or step["times"] % 64 == 0:
                        self._loop.later(0.001, lambda: self._step(message))
                        return
                    continue
            self._steps.pop(0)

    def _made(self, step, message):
        text = step["text"].replace("$CALL", str(message.get("call_id")))
        if "many" in step:
            piece, count = step["many"]
            text = text.replace("$MANY", piece * count)
        body = text.encode("latin-1")
        return body if step.get("raw") else HEADER_OF.pack(len(body)) + body

    def _send_along(self, data, kind):
        blocking = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
        given = {
            "many": [blocking.fileno()] * 200,
            "datagram": [blocking.fileno()],
            "itself": [self._peer.fileno()],
        }[kind]
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _array.array("i", given))]
        try:
            self._peer.sendmsg([data], rights)
        except OSError:
            self.close()
        blocking.close()


import struct as _struct
HEADER_OF = _struct.Struct(">I")
'''


@dataclass(frozen=True, kw_only=True)
class Lie:
    """One lie: what is said in place of an answer, and what must come of it."""

    name: str
    steps: Sequence[Mapping[str, Any]]
    expected: str
    within_s: float = 10.0  # that the call is given
    is_long: bool = False  # it costs seconds: of a soak, but for one kind


def lying_code(folder: Path) -> Path:
    """Return a folder of the toolbox's code that lies where it is told to."""
    place = folder / "toolbox"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(toolbox_options.TOOLBOX_FOLDER, place, ignore=ignored)
    with (place / "connection.py").open("a", encoding="utf-8") as file:
        file.write(CODE)
    return place


def say(text: str, **more: Any) -> dict[str, Any]:
    """A step: one frame with this text, `$CALL` and `$MANY` filled in."""
    return {"do": "say", "text": text, **more}


def frame(**fields: Any) -> dict[str, Any]:
    return say(json.dumps(fields))


HONEST = {"do": "honest"}
CLOSE = {"do": "close"}
DONE = {"success": True, "message": "done", "exit_code": 0, "stdout": "", "stderr": ""}
#: Values where another type belongs, or another size, as JSON.
ODD: Mapping[str, str] = {
    "null": "null",
    "true": "true",
    "negative": "-1",
    "huge": "9" * 400,
    "past 64 bits": str(2**64),
    "too many digits": "9" * 5000,
    "float": "0.5",
    "large float": "1e300",
    "negative float": "-1e300",
    "float beyond all": "1e999",
    "not a number": "NaN",
    "infinity": "-Infinity",
    "text": '"7"',
    "empty": '""',
    "long text": '"$MANY"',
    "half a pair": r'"\ud800"',
    "control characters": r'"\u001b[2J\u0000\r\n"',
    "list": "[]",
    "list of lists": "[[[[]]]]",
    "deep": "[" * 200 + "]" * 200,
    "deeper than a parser": "[" * 90_000 + "]" * 90_000,
    "object": "{}",
}
LONG = ["x", 1_000_000]
SOON_S = 0.2  # that a call is given which gets no answer


def _silent(name: str, steps: Sequence[Mapping[str, Any]]) -> Lie:
    """A lie after which no answer comes: its call is given less time."""
    return Lie(name=name, steps=steps, expected=LATE, is_long=True, within_s=SOON_S)


def _streams() -> Iterator[Lie]:
    yield _silent("no answer", [])
    whole = HEADER.pack(100).decode("latin-1")
    for name, text in {"half a head": "\0\0", "half a frame": f'{whole}{{"say": "res'}.items():
        yield _silent(name, [say(text, raw=True)])
        yield Lie(name=f"{name}, closed", steps=[say(text, raw=True), CLOSE], expected=BROKEN)
    most = HEADER.pack(MAX_FRAME_BYTES).decode("latin-1")
    endless = say("$MANY", raw=True, many=["x", 65536], times=-1)
    yield Lie(name="a stream without a frame", steps=[endless], expected=BROKEN)
    yield _silent("a frame that does not end", [say(f"{most}{{", raw=True)])
    yield Lie(
        name="the longest frame, of nothing",
        expected=BROKEN,
        is_long=True,
        within_s=30,
        steps=[say(most, raw=True), say("$MANY", raw=True, many=["x", 65536], times=513)],
    )
    for name, piece in {"lists": "[],", "objects": '{"a":1},', "numbers": "7777777,"}.items():
        count = (MAX_FRAME_BYTES - 1000) // len(piece)
        text = '{"say":"result","call_id":"$CALL","result":{"success":true,"x":[$MANY0]}}'
        many = say(text, many=[piece, count])
        yield Lie(name=f"a frame of many {name}", steps=[many], expected=BROKEN, is_long=True,
                  within_s=20)  # fmt: skip
    for name, said in {
        "output": frame(say="output", call_id="$CALL", stream="stdout", text="x" * 1000),
        "output of no call": frame(say="output", call_id="none", stream="stdout", text="x"),
        "results of no call": frame(say="result", call_id="none", result=DONE),
        "greetings": frame(say="hello", protocol=PROTOCOL),
        "words of no kind": frame(say="progress", share=0.5),
    }.items():
        yield _silent(f"endless {name}", [{**said, "times": -1}])
    yield Lie(name="closed", steps=[CLOSE], expected=BROKEN)
    yield Lie(name="no JSON", steps=[say("no")], expected=BROKEN)
    yield Lie(name="no object", steps=[say("[]")], expected=BROKEN)
    yield Lie(name="an empty frame", steps=[say("")], expected=BROKEN)
    yield Lie(name="no UTF-8", steps=[say('{"say": "\xff\xfe"}')], expected=BROKEN)
    yield Lie(name="UTF-8 in place of ASCII", steps=[say('{"say": "\xc3\xa9"}')], expected=BROKEN)


def _ids() -> Iterator[Lie]:
    other = frame(say="result", call_id="01NEVER", result=DONE)
    yield Lie(name="the result of a call never made", steps=[other, HONEST], expected=IGNORED)
    yield Lie(
        name="output of a call never made",
        expected=IGNORED,
        steps=[frame(say="output", call_id="x", stream="stdout", text="forged"), HONEST],
    )
    mine = frame(say="result", call_id="$CALL", result={**DONE, "stdout": "first"})
    second = frame(say="result", call_id="$CALL", result={**DONE, "stdout": "second"})
    yield Lie(name="two results", steps=[mine, second], expected=SETTLED)
    yield Lie(name="a result without a call", steps=[frame(say="result", result=DONE)],
              expected=BROKEN)  # fmt: skip
    yield Lie(name="an unknown call", steps=[frame(say="unknown", call_id="$CALL")],
              expected=BROKEN)  # fmt: skip
    yield Lie(name="the call of another is unknown", expected=IGNORED,
              steps=[frame(say="unknown", call_id="x"), HONEST])  # fmt: skip
    yield Lie(name="a refusal", steps=[frame(say="error", message="no")], expected=BROKEN)


def _greetings() -> Iterator[Lie]:
    """Lies of the next connection, and the result of the call that is sent over it."""
    for name, steps, expected in (
        ("another version", [frame(say="hello", protocol=PROTOCOL + 1)], BROKEN),
        ("two greetings", [HONEST, frame(say="hello", protocol=99)], IGNORED),
        ("a result in place of a greeting", [frame(say="result", call_id="c", result=DONE), CLOSE],
         BROKEN),
        ("a refusal of the greeting", [frame(say="error", message="no")], BROKEN),
        ("closed before the greeting", [CLOSE], BROKEN),
        ("closed after the greeting", [HONEST, CLOSE], BROKEN),
        ("half a greeting", [say("\0\0", raw=True), CLOSE], BROKEN),
    ):  # fmt: skip
        yield Lie(name=name, steps=steps, expected=expected)


def _fields() -> Iterator[Lie]:
    """Each field of each frame, with what does not belong there; made of the engine's table."""
    for kind, fields in FRAMES.items():
        for field in fields:
            for name, odd in ODD.items():
                own = {other: '"$CALL"' if other == "call_id" else each.sample
                       for other, each in fields.items()}  # fmt: skip
                own |= {"say": f'"{kind}"', field: odd}
                text = ",".join(f'"{key}":{value}' for key, value in own.items())
                steps = [say(f"{{{text}}}", many=LONG), HONEST]
                is_right = fields[field].fits(_read(odd))
                yield Lie(name=f"{kind}.{field}: {name}", steps=steps,
                          expected=ANY if is_right else BROKEN)  # fmt: skip


def _read(odd: str) -> Any:
    try:
        return json.loads(odd.replace("$MANY", "x" * 1_000_000))
    except (ValueError, RecursionError):
        return object()


def _results() -> Iterator[Lie]:
    """Each field of a command's result, with each odd value."""
    fields = (
        *("success", "message", "error", "exit_code", "stdout", "stderr", "stdout_bytes"),
        *("elapsed_s", "started", "ended", "usage", "paths", "limit", "limit_seen_by", "signal"),
        *("is_background", "left_running", "job_id", "killed_for_memory", "replica", "asks"),
    )
    for field in fields:
        for name, odd in ODD.items():
            own = {key: json.dumps(value) for key, value in DONE.items()} | {field: odd}
            text = ",".join(f'"{key}":{value}' for key, value in own.items())
            whole = f'{{"say":"result","call_id":"$CALL","result":{{{text}}}}}'
            yield Lie(name=f"result of a command, {field}: {name}",
                      steps=[say(whole, many=LONG)], expected=ANY)  # fmt: skip


def _between() -> Iterator[Lie]:
    """Lies between two calls: nothing is waited for then."""
    done = frame(say="result", call_id="$CALL", result=DONE)
    whole = HEADER.pack(100).decode("latin-1")
    for name, steps in {
        "closed": [CLOSE],
        "half a frame": [say(f"{whole}{{", raw=True)],
        "no frame": [say("xxxxxxxx", raw=True)],
        "another result": [done],
        "the result of the next call": [
            frame(say="result", call_id="01NEXT", result={**DONE, "stdout": "forged"})
        ],
        "a refusal": [frame(say="error", message="no")],
        "endless words": [{**frame(say="progress", share=0.5), "times": -1}],
        "endless output": [
            {**frame(say="output", call_id="$CALL", stream="stdout", text="x" * 1000), "times": -1}
        ],
    }.items():
        yield Lie(name=f"between calls: {name}", steps=[done, {"do": "wait"}, *steps], expected=ANY)
    silence = [{"do": "fall silent"}, HONEST]
    yield Lie(name="no answer to anything that follows", steps=silence, expected=LATE)


def _descriptors() -> Iterator[Lie]:
    for kind in ("many", "datagram", "itself"):
        said = json.dumps({"say": "result", "call_id": "$CALL", "result": DONE})
        yield Lie(name=f"descriptors: {kind}", steps=[say(said, fds=kind)], expected=ANY)


LIES = {
    "streams": tuple(_streams()),
    "names": tuple(_ids()),
    "greetings": tuple(_greetings()),
    "fields": tuple(_fields()),
    "results": tuple(_results()),
    "between": tuple(_between()),
    "descriptors": tuple(_descriptors()),
}


def at_greetings(lie: Lie) -> Sequence[Mapping[str, Any]]:
    """Return steps that keep a lie for the next greeting, and answer truly now."""
    return [{"do": "arm", "steps": lie.steps, "times": 1}, HONEST]
