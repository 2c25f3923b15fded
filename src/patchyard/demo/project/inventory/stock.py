"""Stock levels and what to order."""


def pages(items, size):
    """Split `items` into pages of at most `size`."""
    return [items[start : start + size] for start in range(0, len(items) - size, size)]


def to_order(levels, minimum):
    """Return the names whose level is below `minimum`, sorted."""
    return sorted(name for name, level in levels.items() if level < minimum)
