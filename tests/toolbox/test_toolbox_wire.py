import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchyard.toolbox import calls, wire
from patchyard.toolbox.calls import Call, Register
from patchyard.toolbox.server import encode_result
from timing import require_linear

TEXTS = st.text(st.characters(codec="utf-8")) | st.binary().map(
    lambda data: data.decode("utf-8", "surrogateescape")
)


@settings(
    database=None, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
@given(st.lists(st.dictionaries(TEXTS, TEXTS | st.integers()), max_size=4), st.integers(1, 50))
def test_frames_arrive_whole_in_whatever_pieces(
    messages: list[dict[str, object]], size: int
) -> None:
    stream = b"".join(map(wire.encode, messages))
    decoder = wire.Decoder()
    arrived = []
    for start in range(0, len(stream), size):
        arrived += decoder.feed(stream[start : start + size])
    assert arrived == messages


def test_a_decoder_keeps_little_room_after_a_large_frame_and_nothing_of_the_next_is_lost() -> None:
    large = {"x": "y" * (2 * wire.KEPT_BYTES)}
    for following in ({"x": "z"}, {"x": "z" * wire.KEPT_BYTES}, large):
        first, second = wire.encode(large), wire.encode(following)
        decoder = wire.Decoder()
        assert decoder.feed(first + second[:-1]) == [large]
        assert sys.getsizeof(decoder._buffer) <= max(wire.KEPT_BYTES, len(second)) * 9 // 8 + 100
        assert decoder.feed(second[-1:] + first[:2]) == [following]
        assert sys.getsizeof(decoder._buffer) <= wire.KEPT_BYTES * 9 // 8 + 100
        assert decoder.feed(first[2:]) == [large]


@pytest.mark.parametrize("size", [1, 5, 70_000, 1_000_000])
def test_frames_that_are_written_into_the_room_are_whole_whatever_their_pieces(size: int) -> None:
    sent: list[dict[str, object]] = [
        {"x": "y" * 30},
        {"x": "y" * (100 if size < 10 else 3 * wire.KEPT_BYTES)},
        {"z": 1},
    ]
    stream = b"".join(wire.encode(each) for each in sent)
    decoder = wire.Decoder()
    arrived, start = [], 0
    while start < len(stream):
        with decoder.room() as room:
            assert len(room) >= wire.ROOM_BYTES
            piece = stream[start : start + min(size, len(room))]
            room[: len(piece)] = piece
        start += len(piece)
        arrived += decoder.came(len(piece))
    assert arrived == sent
    assert len(decoder._buffer) <= wire.KEPT_BYTES


@pytest.mark.parametrize("padding", [0, 1, wire.PIECE_BYTES - 1])
def test_parts_are_counted_over_each_piece_of_a_frame(padding: int) -> None:
    numbers = {"p": "y" * padding, "x": [0] * (wire.MOST_PARTS - 5)}  # three texts, `{`, `[`
    assert wire.Decoder().feed(wire.encode(numbers)) == [numbers]
    with pytest.raises(wire.WireError, match="more than"):
        wire.Decoder().feed(wire.encode({**numbers, "x": [0] * (wire.MOST_PARTS + 1)}))


def test_a_frame_over_the_limit_is_refused_on_both_sides() -> None:
    with pytest.raises(wire.WireError, match="over the limit"):
        wire.encode({"x": "y" * wire.MAX_FRAME_BYTES})
    with pytest.raises(wire.WireError, match="announced"):
        wire.Decoder().feed(wire.HEADER.pack(wire.MAX_FRAME_BYTES + 1))


def test_a_result_over_the_limit_loses_its_longest_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME_BYTES", 1000)
    large = {"success": True, "stdout": "x" * 5000, "matches": ["y" * 50] * 100}
    (message,) = wire.Decoder().feed(encode_result("c", large))
    assert message["result"]["truncated"] is True
    assert "cut" in message["result"]["stdout"]
    assert 0 < len(message["result"]["matches"]) < 100


def settled(register: Register, name: str, size: int) -> Call:
    call = Call(name, name, encode_result)
    register.add(call)
    call.settle({"success": True, "message": "x" * size})
    return call


def test_the_oldest_results_make_room_and_their_names_stay_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "KEPT_BYTES", 5000)
    register = Register()
    running = Call("running", "running", encode_result)
    register.add(running)
    for name in ("a", "b", "c"):
        settled(register, name, 2000)
    assert list(register.calls) == ["running", "b", "c"]
    assert register.is_gone("a")
    settled(register, "large", 9000)
    assert list(register.calls) == ["running", "large"]
    register.forget("running")
    register.forget("unknown")
    assert "running" in register.calls


def test_names_that_are_gone_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "KEPT_IDS", 2)
    register = Register()
    for name in ("a", "b", "c"):
        settled(register, name, 1)
        register.forget(name)
    assert [register.is_gone(name) for name in ("a", "b", "c")] == [False, True, True]


def test_a_call_is_settled_once() -> None:
    call = settled(Register(), "a", 1)
    frame = call.frame
    call.settle({"success": False})
    assert call.frame == frame


@pytest.mark.parametrize(
    ("text", "killed"),
    [
        ("low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n", 2),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", 1),
        ("oom_kill_disable 0\nunder_oom 0\n", 0),
        (None, 0),
    ],
    ids=["version 2", "version 1", "before Linux 4.13", "not shown"],
)
def test_what_a_group_killed_is_read_where_it_is_shown(
    text: str | None, killed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "memory.events"
    if text is not None:
        place.write_text(text)
    monkeypatch.setattr(calls, "GROUPS", (str(tmp_path / "no"), str(place)))
    assert calls.killed_in_group() == killed


def framed(text: str) -> bytes:
    return wire.HEADER.pack(len(text)) + text.encode("ascii")


@pytest.mark.parametrize("piece", ["[],", '{"a":1},', "7,", '"","",', r'"\"",'])
def test_a_frame_of_more_values_than_anything_honest_has_is_refused_unread(piece: str) -> None:
    many = framed(f'{{"x":[{piece * (wire.MOST_PARTS // 2)}{piece * wire.MOST_PARTS}0]}}')
    with pytest.raises(wire.WireError, match="values"):
        wire.Decoder().feed(many)


def test_a_long_text_of_commas_and_brackets_is_one_value() -> None:
    message = {"say": '[{,"\\' * wire.MOST_PARTS}
    assert wire.Decoder().feed(wire.encode(message)) == [message]


def test_a_text_without_an_end_takes_no_more_time_than_its_length() -> None:
    def refuse(size: int) -> None:
        with pytest.raises(wire.WireError, match="no JSON"):
            wire.Decoder().feed(framed('{"x": "' + r"\"" * size))

    require_linear(refuse, wire.MOST_PARTS)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_what_is_no_finite_number_is_no_frame(number: str) -> None:
    with pytest.raises(wire.WireError, match="no JSON"):
        wire.Decoder().feed(framed(f'{{"x": {number}}}'))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"x", {1, 2}, object()])
def test_what_json_does_not_have_is_not_sent(value: object) -> None:
    with pytest.raises(wire.WireError, match=r"a number is none|a value is no text"):
        wire.encode({"args": {"x": [value]}})


def test_a_result_that_json_does_not_have_is_told_as_a_failure() -> None:
    frame = encode_result("c1", {"success": True, "x": float("nan")})
    (message,) = wire.Decoder().feed(frame)
    assert message["result"]["error"] == "INTERNAL_ERROR"


def test_texts_that_no_encoding_has_are_made_writable() -> None:
    text = r'{"\ud800": ["a\udbffb", {"x": "\udc00\ud83d\ude00"}], "byte": "\udcff\udc80"}'
    (message,) = wire.Decoder().feed(framed(text))
    assert message == {
        "\ufffd": ["a\ufffdb", {"x": "\ufffd\U0001f600"}],
        "byte": "\udcff\udc80",
    }
    str(message).encode("utf-8", "surrogateescape")
