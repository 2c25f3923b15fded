"""What the engine needs from the world: one seam a file, its semantics in the docstrings."""
