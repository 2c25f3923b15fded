"""Counts what passes the gateways of one plan, keeps what was tried, and says when it is enough."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from patchyard.clients.gateway_server import Refused
from patchyard.clients.tally import LimitHit, Tally
from patchyard.contracts.gateway import Tried
from patchyard.domain.limit_hits import Hit
from patchyard.domain.network import NetworkGrant
from patchyard.domain.traffic import PLACES, Attempt, Traffic, summed, traffic_of

KEPT = 200  # attempts kept one by one between two askings; all are counted
TEXT_CHARS = 300  # of a path or a reason, which may be whatever was asked for
HOST_CHARS = 253


class Trial:
    """One attempt while it lasts."""

    def __init__(self, log: "TrafficLog", tally: Tally) -> None:
        self._log = log
        self._tally = tally
        self.gateway = ""
        self.host = ""
        self.port = 0
        self.method = ""
        self.path = ""
        self.status = 0
        self.up = 0
        self.down = 0
        self.reason = ""
        self.is_refused = False
        self.is_silent = False  # nobody asked for anything

    def sent(self, count: int) -> None:
        """Count bytes that go to the host. Raises Refused when it is enough."""
        self.up += count
        self._counted(count)

    def came(self, count: int) -> None:
        """Count bytes that come from the host. Raises Refused when it is enough."""
        self.down += count
        self._counted(count)

    def _counted(self, count: int) -> None:
        try:
            self._log.count(count)
        finally:
            self._tally.count(count)

    def require_room(self) -> None:
        """Raise Refused when the environment, the call or the plan has had enough."""
        self._tally.require_room()
        self._log.require_room()

    def refuse(self, error: Refused) -> None:
        """Remember why it did not pass."""
        self.reason, self.is_silent = str(error), False
        self.is_refused = error.status < HTTPStatus.INTERNAL_SERVER_ERROR
        if isinstance(error, LimitHit):
            self.is_refused = True
            self._tally.note(error.hit)
        self.status = self.status or error.status.value

    @property
    def outcome(self) -> Attempt:
        """What is told of it."""
        verdict = "passed" if not self.reason else "refused" if self.is_refused else "failed"
        return Attempt(
            gateway=self.gateway,
            verdict=verdict,
            host=self.host[:HOST_CHARS],
            port=self.port,
            method=self.method[:20],
            path=self.path[:TEXT_CHARS],
            status=self.status,
            up=self.up,
            down=self.down,
            reason=self.reason[:TEXT_CHARS],
        )


class TrafficLog:
    """All attempts of one plan in this process."""

    def __init__(self, grant: NetworkGrant, *, spent: int = 0) -> None:
        self._grant = grant
        self._plan_bytes = spent
        self._call_bytes = 0
        self._attempts: list[Attempt] = []
        self._traffic: tuple[Traffic, ...] = ()
        self._missed = 0

    def begin_call(self) -> None:
        """Count the bytes of a call from here on."""
        self._call_bytes = 0

    def count(self, count: int) -> None:
        """Count bytes. Raises Refused when a call or the plan has had enough."""
        self._plan_bytes += count
        self._call_bytes += count
        self.require_room()

    def require_room(self) -> None:
        """Raise Refused when a call or the plan has had enough."""
        limits = (
            ("network.max_plan_bytes", self._plan_bytes, self._grant.max_plan_bytes),
            ("network.max_call_bytes", self._call_bytes, self._grant.max_call_bytes),
        )
        for name, used, most in limits:
            if used > most:
                hit = Hit(limit=name, used=used, allowed=most, seen_by="gateway")
                raise LimitHit(HTTPStatus.FORBIDDEN, hit)

    @contextmanager
    def trial(self, tally: Tally) -> Iterator[Trial]:
        """Keep what becomes of one attempt of the environment that `tally` counts for."""
        trial = Trial(self, tally)
        try:
            yield trial
        except Refused as error:
            trial.refuse(error)
            raise
        except BaseException as error:
            trial.reason = trial.reason or type(error).__name__
            raise
        finally:
            if not trial.is_silent:
                self._keep(trial.outcome)

    def _keep(self, attempt: Attempt) -> None:
        self._traffic = summed(self._traffic, (traffic_of(attempt),), PLACES)
        if len(self._attempts) < KEPT:
            self._attempts.append(attempt)
        else:
            self._missed += 1

    def tried(self) -> Tried:
        """Return what was tried since this was last called."""
        tried = Tried(attempts=tuple(self._attempts), traffic=self._traffic, missed=self._missed)
        self._attempts, self._traffic, self._missed = [], (), 0
        return tried


__all__ = ["HOST_CHARS", "KEPT", "TEXT_CHARS", "TrafficLog", "Trial"]
