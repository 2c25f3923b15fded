"""Patchyard beside other engines: the same scripted model, the same steps, each in its own place.

`make bench-peers` runs it. Nothing here is part of the package.
"""
