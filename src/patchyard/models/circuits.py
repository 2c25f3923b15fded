"""The circuit breakers of one process: one a provider and one a model, for all plans."""

import time
from collections.abc import Callable

from patchyard.domain.circuit import Circuit
from patchyard.domain.failover import Blame, Trouble, asked_wait_s, blame, is_of_model
from patchyard.domain.model_names import split_name


class Circuits:
    """What this process knows of how providers do. Not kept: another process finds out itself."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._circuits: dict[str, Circuit] = {}
        self._causes: dict[str, Trouble] = {}

    def of(self, name: str) -> Circuit:
        """Return the circuit of a provider, or of one model (PROVIDER:MODEL)."""
        return self._circuits.get(name, Circuit())

    def wait_s(self, model: str) -> float | None:
        """Return None where `model` may be asked now, else for how long not, in seconds."""
        now = self._now()
        closed = [each for each in self._both(model) if not each.admits(now)]
        return max((max(1.0, each.wait_s(now)) for each in closed), default=None)

    def cause(self, model: str) -> Trouble | None:
        """Return why `model` may not be asked now."""
        now = self._now()
        shut = [name for name in _names(model) if not self.of(name).admits(now)]
        return next((self._causes[name] for name in shut if name in self._causes), None)

    def begin(self, model: str) -> None:
        """Note a request that is sent now; where a circuit is half open, it is the only one."""
        for name in _names(model):
            if name in self._circuits:
                self._circuits[name] = self._circuits[name].probing(self._now())

    def succeeded(self, model: str) -> None:
        """Note a good answer."""
        for name in _names(model):
            self._circuits.pop(name, None)

    def failed(self, model: str, error: Trouble) -> None:
        """Note a failure, as far as the provider or its model is to blame."""
        found = blame(error)
        if found == Blame.NONE:
            self.succeeded(model)  # it answered
            return
        provider, whole = _names(model)
        name, other = (whole, provider) if is_of_model(error) else (provider, whole)
        self._causes[name] = error
        is_grave, asked = found == Blame.GRAVE, asked_wait_s(error)
        self._circuits[name] = self.of(name).failed(
            self._now(), is_grave=is_grave, at_least_s=asked
        )
        if other in self._circuits:
            self._circuits[other] = self._circuits[other].let_go()

    def let_go(self, model: str) -> None:
        """Note a request that was given up from here."""
        for name in _names(model):
            if name in self._circuits:
                self._circuits[name] = self._circuits[name].let_go()

    def _both(self, model: str) -> tuple[Circuit, Circuit]:
        provider, whole = _names(model)
        return self.of(provider), self.of(whole)


def _names(model: str) -> tuple[str, str]:
    return split_name(model)[0], model


__all__ = ["Circuits"]
