"""Counts what is on the shelves."""
