"""The hash chain: whatever is done to a stream that was written, a sentence says so."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.chain import Entry, Head, chained, faults, hash_of


def stream(length: int) -> list[Entry]:
    bare = [
        Entry(stream="P", version=n, type="Noted", schema=1, at=n / 3, text=f'{{"n":{n}}}')
        for n in range(1, length + 1)
    ]
    hashes = chained("", bare)
    return [entry._replace(hash=own) for entry, own in zip(bare, hashes, strict=True)]


def test_an_untouched_stream_has_no_fault() -> None:
    assert faults(stream(5)) == ()
    assert faults(stream(5), head=stream(3)[-1].hash[:12].upper()) == ()
    assert faults([]) == ()


def test_the_hash_is_of_everything_that_is_stored() -> None:
    entry = stream(1)[0]
    other: dict[str, Any] = {
        "stream": "Q",
        "version": 2,
        "type": "Moved",
        "schema": 2,
        "at": 0.5,
        "text": "{}",
    }
    hashes = {hash_of("", entry), hash_of("x", entry)}
    hashes |= {hash_of("", entry._replace(**{name: value})) for name, value in other.items()}
    assert len(hashes) == 2 + len(other)
    assert hash_of("", entry._replace(at=1)) == hash_of("", entry._replace(at=1.0))


@given(st.integers(2, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
def test_a_changed_event_is_named(case: tuple[int, int]) -> None:
    length, place = case
    entries = stream(length)
    entries[place] = entries[place]._replace(text='{"n":"changed"}')
    assert faults(entries) == (f"event {place + 1} (Noted) is not as it was written",)


@given(st.integers(3, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 2))))
def test_an_event_taken_out_is_named_and_so_is_who_followed_it(case: tuple[int, int]) -> None:
    length, place = case
    entries = stream(length)
    del entries[place]
    assert faults(entries) == (
        f"event {place + 1} is missing",
        f"event {place + 2} (Noted) is not as it was written",
    )


def test_a_changed_event_with_a_hash_made_to_fit_breaks_the_next() -> None:
    entries = stream(3)
    changed = entries[0]._replace(text="{}")
    entries[0] = changed._replace(hash=hash_of("", changed))
    assert faults(entries) == ("event 2 (Noted) is not as it was written",)


def test_only_a_head_noted_earlier_shows_a_cut_end_or_a_whole_forgery() -> None:
    true = stream(4)
    bare = [entry._replace(at=0.0) for entry in true]
    forged = [e._replace(hash=own) for e, own in zip(bare, chained("", bare), strict=True)]
    for entries in (true[:3], forged):
        assert faults(entries) == ()
        (fault,) = faults(entries, head=true[-1].hash)
        assert true[-1].hash[:12] in fault


def test_an_event_that_lost_its_hash_is_named() -> None:
    first, last = stream(2)
    bare = first._replace(hash="")
    assert faults([bare, last]) == (
        "event 1 (Noted) has lost its hash",
        "event 2 (Noted) is not as it was written",
    )
    noted = [Head(version=2, hash=last.hash)]
    assert faults([bare, last._replace(hash="")], noted=noted) == (
        "event 1 (Noted) has lost its hash",
        "event 2 (Noted) has lost its hash",
    )


def test_a_stream_of_a_version_without_hashes_can_only_lack_events() -> None:
    bare = [entry._replace(hash="") for entry in stream(3)]
    assert faults(bare) == ()
    assert faults([bare[0], bare[2]]) == ("event 2 is missing",)
    (fault,) = faults(bare, head=stream(3)[-1].hash)
    assert fault.startswith("no event carries the hash")
