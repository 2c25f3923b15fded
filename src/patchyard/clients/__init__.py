"""Thin shared I/O towards other programs."""
