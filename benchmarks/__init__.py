"""Measures that asv follows over time and `make bench` prints as one table."""
