"""What is kept of a request's bytes: each message is encoded once, whatever becomes of the rest."""

import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.messages import Message, Speaker
from patchyard.models.encoding import Encoded, body_of

POOL = tuple(Message(speaker=Speaker.USER, text=f"ä{number}") for number in range(8))


@given(st.lists(st.lists(st.sampled_from(POOL), max_size=9), max_size=9))
def test_the_array_is_that_of_this_requests_messages(requests: list[list[Message]]) -> None:
    encoded = Encoded(lambda said: {"text": said.text})
    for messages in requests:
        body = body_of({"model": "m"}, "said", encoded.each(messages), {"tools": b"[1]"})
        found = [{"text": said.text} for said in messages]
        assert json.loads(body) == {"model": "m", "said": found, "tools": [1]}


def test_what_was_sent_before_is_not_encoded_again() -> None:
    counts: Counter[str] = Counter()

    def encode(said: Message) -> Any:
        counts[said.text] += 1
        return said.text

    encoded = Encoded(encode)
    for messages in (POOL[:3], POOL[:5], POOL[:5], (POOL[0], *POOL[2:6])):
        assert [*map(json.loads, encoded.each(messages))] == [said.text for said in messages]
    assert counts == Counter({said.text: 1 for said in POOL[:6]})
