"""ULIDs: names that sort by time. Time and chance are given, never taken."""

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32
LENGTH = 26
RANDOM_BITS = 80


def ulid(time_ms: int, randomness: int) -> str:
    """Return the ULID of `time_ms` (since the epoch) and 80 bits of `randomness`."""
    number = (time_ms << RANDOM_BITS) | (randomness & ((1 << RANDOM_BITS) - 1))
    digits = []
    for _ in range(LENGTH):
        digits.append(ALPHABET[number & 31])
        number >>= 5
    return "".join(reversed(digits))


def is_ulid(text: str) -> bool:
    """Whether `text` is a whole ULID in its canonical form."""
    return len(text) == LENGTH and text[0] in "01234567" and set(text) <= set(ALPHABET)


def time_ms(text: str) -> int:
    """Return when a ULID was made, in milliseconds since the epoch."""
    number = 0
    for digit in text:
        number = number << 5 | ALPHABET.index(digit)
    return number >> RANDOM_BITS


def is_prefix(text: str) -> bool:
    """Whether `text` could begin a ULID."""
    return 0 < len(text) <= LENGTH and set(text.upper()) <= set(ALPHABET)


__all__ = ["ALPHABET", "LENGTH", "RANDOM_BITS", "is_prefix", "is_ulid", "time_ms", "ulid"]
