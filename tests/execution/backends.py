"""What a kind needs around it before a sandbox can be opened."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from environments.yards import ADAPTERS, IN_CONTAINERS, marks_of
from images import WITH_PYTHON, image
from machines import lend
from patchyard.domain.environment import kind_of_word
from services import kernel_folder
from sshds import HOST, serving_ssh

KINDS = [pytest.param(kind, marks=marks_of(kind)) for kind in ADAPTERS if kind_of_word(kind)]
"""Those of the contract's suite, but for the further ways in which it starts one of them."""


@contextlib.contextmanager
def backed(kind: str) -> Iterator[Mapping[str, Any]]:
    """Start what `kind` needs, and yield the settings that name it."""
    if kind in IN_CONTAINERS:
        yield {"kind": kind, "image": image(WITH_PYTHON)}
    elif kind == "ssh":
        with serving_ssh() as server:
            server.configure(Path(os.environ["HOME"]))
            yield {"kind": kind, "address": HOST}
    elif kind == "vm":
        lend(Path(os.environ["PATCHYARD_HOME"]) / "run")
        yield {"kind": kind, "image": kernel_folder()}
    else:
        yield {"kind": kind}
