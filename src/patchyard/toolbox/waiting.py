"""A toolbox that has loaded what it needs, and waits to be told for whom it is.

So it stands in the saved state of a virtual machine: nothing of a plan is in it yet.
"""

from __future__ import annotations

import os
import socket

from . import (
    commands,
    files,
    freezing,
    grep,
    listing,
    replacing,
    replicating,
    running,
    server,
    shells,
)

PIECE_BYTES = 64 * 1024
LOADED = (commands, files, freezing, grep, listing, replacing, replicating, running, shells)
"""Imported on use elsewhere; here once and for all machines."""


def main() -> int:
    """Say on standard input that all is loaded, read the options there, and serve by them."""
    with socket.socket(fileno=os.dup(0)) as told:  # 0 stays taken until the server closes it
        told.send(b".")
        pieces = []
        while True:
            piece = told.recv(PIECE_BYTES)
            if not piece:
                break
            pieces.append(piece)
    return server.main(b"".join(pieces).decode("ascii"))


__all__ = ["LOADED", "main"]
