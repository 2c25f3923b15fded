"""Where the battery is tried: an engine's state, a kind, and what around it can be broken."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from environments.yards import ADAPTERS
from patchyard.clients.berths import Station
from patchyard.contracts.environment import Environment
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Mount
from patchyard.probing.attack import Attack, Report, Ruling, Verdict
from patchyard.probing.battery import all_attacks
from patchyard.probing.probe import Prober, Surroundings


@dataclass(kw_only=True)
class Hall:
    """One engine of a test's own."""

    folder: Path
    station: Station
    around: Surroundings

    def adapter(self, kind: str) -> Environment:
        """Return the adapter of a kind."""
        return ADAPTERS[kind](self.station)

    async def probe(self, kind: str, *names: str, image: str = "", runtime: str = "") -> Report:
        """Try attacks, all where none is named; in a container of that image and runtime."""
        nowhere = Mount(source="", target="")
        spec = EnvironmentSpec(
            plan_id="", purpose="check", workspace=nowhere, image=image, runtime=runtime
        )
        return await Prober(
            self.adapter(kind),
            self.around,
            attacks=self._chosen(*names) if names else None,
            spec=spec if image else None,
        ).run()

    async def verdicts(self, kind: str, *names: str) -> Mapping[str, Verdict]:
        """Try some attacks; their verdicts by name."""
        report = await self.probe(kind, *names)
        return {ruling.attack: ruling.verdict for ruling in report.rulings}

    def _chosen(self, *names: str) -> list[Attack]:
        chosen = [a for a in all_attacks(self.around.show) if a.name in names]
        assert {attack.name for attack in chosen} == set(names)
        return chosen

    def shows(self, show: Callable[[str], str]) -> None:
        """Let the command line show text of others so."""
        self.around = replace(self.around, show=show)


def by_verdict(report: Report, verdict: Verdict) -> dict[str, Ruling]:
    """Return the rulings with that verdict, by the attack's name."""
    return {ruling.attack: ruling for ruling in report.rulings if ruling.verdict is verdict}


__all__ = ["ExecutionEnvironment", "Hall", "by_verdict"]
