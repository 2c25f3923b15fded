"""Kinds of place where work happens, one a file."""
