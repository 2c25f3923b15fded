"""What a test counts of this process's memory is seen, whatever it had and freed before."""

from memory import Growth

MIB = 1024 * 1024


def _taken(count: int) -> list[bytes]:
    return [b"%d" % number * 100 for number in range(count)]


def test_memory_that_was_had_and_freed_before_counts_when_it_is_taken_again() -> None:
    first = Growth()
    kept = _taken(100_000)
    had = first.most
    assert had > 50 * MIB
    del kept
    again = Growth()
    assert again.most < 5 * MIB
    kept = _taken(100_000)
    assert again.most > had * 0.8
    assert len(kept) == 100_000


def test_memory_that_is_freed_at_once_counts_as_well() -> None:
    growth = Growth()
    assert len(bytes(b"x" * (64 * MIB))) == 64 * MIB
    assert growth.most > 60 * MIB
