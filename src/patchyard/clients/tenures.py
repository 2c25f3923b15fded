"""Who keeps the files of an environment: the engine that attached last. One that slept may wake.

It has no connection to lose by then, and files in its hands that are old. So it reads a file of
ours in the environment's own folder right before each thing that it does.
"""

import os
from pathlib import Path

from patchyard.domain.errors import EnvironmentBroken

NAME = "kept-by"  # in the environment's folder
OTHER = "another engine keeps the files of this environment by now"
HINT = "`agents plan watch` follows the plan; `agents plan resume` takes it back"


class Tenure:
    """One engine's time with one environment: from `begin` until another begins its own."""

    def __init__(self, folder: Path) -> None:
        self._place = folder / NAME
        self._own = os.urandom(8).hex()

    def begin(self) -> None:
        """Be the one. Raises EnvironmentBroken where the environment has no folder any more."""
        try:
            self._place.write_text(self._own, encoding="ascii")
        except FileNotFoundError as error:
            raise EnvironmentBroken("the environment has ended") from error

    def require(self) -> None:
        """Raise EnvironmentBroken when it is another by now, or the environment is gone."""
        try:
            found = self._place.read_text(encoding="ascii")
        except FileNotFoundError:
            found = ""
        if found != self._own:
            raise EnvironmentBroken(OTHER, hint=HINT)


__all__ = ["HINT", "NAME", "OTHER", "Tenure"]
