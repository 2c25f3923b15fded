"""The circuit breakers of one process: one a provider and one a model, for all plans."""

import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy

from patchyard.domain.circuit import Circuit, Position
from patchyard.domain.errors import ModelUnavailable
from patchyard.domain.failover import (
    Blame,
    Trouble,
    asked_wait_s,
    blame,
    is_of_model,
    is_told_by_list,
)
from patchyard.domain.model_names import split_name


class Circuits:
    """What this process knows of how providers do. Not kept: another process finds out itself."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._circuits: dict[str, Circuit] = {}
        self._causes: dict[str, Trouble] = {}
        self._looked: dict[str, float] = {}  # when, by provider
        self._places: Mapping[str, str] = {}

    def among(self, places: Mapping[str, str]) -> "Circuits":
        """Return the same, for somebody to whom some names of providers mean other `places`."""
        seen: Circuits = copy(self)
        seen._places = places
        return seen

    def _names(self, model: str) -> tuple[str, str]:
        """Return what a provider and one of its models go by here."""
        provider, name = split_name(model)
        place = self._places.get(provider, provider)
        return place, f"{place}:{name}"

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
        shut = [name for name in self._names(model) if not self.of(name).admits(now)]
        return next((self._causes[name] for name in shut if name in self._causes), None)

    def begin(self, model: str) -> None:
        """Note a request that is sent now; where a circuit is half open, it is the only one."""
        for name in self._names(model):
            if name in self._circuits:
                self._circuits[name] = self._circuits[name].probing(self._now())

    def succeeded(self, model: str) -> None:
        """Note a good answer."""
        for name in self._names(model):
            self._circuits.pop(name, None)

    def failed(self, model: str, error: Trouble) -> None:
        """Note a failure, as far as the provider or its model is to blame."""
        found = blame(error)
        if found == Blame.NONE:
            self.succeeded(model)  # it answered
            return
        provider, whole = self._names(model)
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
        for name in self._names(model):
            if name in self._circuits:
                self._circuits[name] = self._circuits[name].let_go()

    def is_open(self, model: str) -> bool:
        """Whether something keeps requests from `model`, or lets only one through."""
        now = self._now()
        return any(each.position(now) != Position.CLOSED for each in self._both(model))

    def may_look(self, provider: str, every_s: float) -> bool:
        """Whether a look at `provider` is due, which is taken as begun then."""
        now, provider = self._now(), self._places.get(provider, provider)
        before = self._looked.get(provider)
        if before is not None and now - before < 0.9 * every_s:
            return False
        self._looked[provider] = now
        return True

    def looked(self, model: str, names: Sequence[str] | None, *, least_s: float) -> None:
        """Note what a look came to: the models that are listed, None where nobody answered.

        Only what a list can tell ends a wait early: that the provider can be reached, takes the
        key, has the model.
        """
        now = self._now()
        whole = self._names(model)[1]
        for name in (each for each in self._names(model) if each in self._circuits):
            circuit, cause = self._circuits[name], self._causes.get(name)
            is_missed = bool(names) and isinstance(cause, ModelUnavailable) and name == whole
            if names is None or (is_missed and not _is_among(model, names)):
                self._circuits[name] = circuit.away(now, least_s=least_s)
            elif is_missed or (cause is not None and is_told_by_list(cause)):
                self._circuits[name] = circuit.answering(now)

    def _both(self, model: str) -> tuple[Circuit, Circuit]:
        provider, whole = self._names(model)
        return self.of(provider), self.of(whole)


def _is_among(model: str, names: Sequence[str]) -> bool:
    own = split_name(model)[1]
    return own in names or f"{own}:latest" in names


__all__ = ["Circuits"]
