"""Strategies of giving a plan a writable tree over an immutable base."""
