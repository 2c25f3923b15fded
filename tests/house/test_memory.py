"""What a test counts of this process's memory is seen, whatever it had and freed before."""

from memory import Growth

MIB = 1024 * 1024
BLOCKS = 64  # each of whole pages: smaller ones can lie in pages that are in use anyway


def _taken() -> list[bytes]:
    return [b"x" * MIB for _ in range(BLOCKS)]


def test_memory_that_was_had_and_freed_before_counts_when_it_is_taken_again() -> None:
    first = Growth()
    kept = _taken()
    assert first.most > 60 * MIB
    del kept
    again = Growth()
    assert again.most < 5 * MIB
    kept = _taken()
    assert again.most > 60 * MIB
    assert len(kept) == BLOCKS


def test_memory_that_is_freed_at_once_counts_as_well() -> None:
    growth = Growth()
    assert len(bytes(b"x" * (64 * MIB))) == 64 * MIB
    assert growth.most > 60 * MIB
