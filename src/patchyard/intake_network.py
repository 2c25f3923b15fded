"""What a plan may reach: `--allow-host`, `--secret` and their settings, checked once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from patchyard.clients.foreign_git import ITS_OWN, ForeignGit
from patchyard.clients.git import text
from patchyard.clients.keeping_secrets import require_secret
from patchyard.configuration import Configuration
from patchyard.domain.addresses import Misnamed
from patchyard.domain.errors import UsageError
from patchyard.domain.faults import Fault
from patchyard.domain.network import GATEWAY, GIT, NetworkGrant, repository_rule, rule_of, secret_of
from patchyard.domain.network_settings import NetworkSettings, network_of, secrets_of
from patchyard.domain.plan import PlanSpec
from patchyard.domain.routing import route_of
from patchyard.domain.safety import UNCONFINED
from patchyard.domain.tooling import COMMAND

SIZES = ("max_call_bytes", "max_connections", "max_plan_bytes")


def asked_network(
    allow_hosts: Sequence[str], secrets: Sequence[str]
) -> tuple[NetworkSettings | None, tuple[str, ...] | None]:
    """Return what the options say, as settings. Raises UsageError naming the option."""
    try:
        hosts = network_of({"allow_hosts": list(allow_hosts)}, ()) if allow_hosts else None
    except Fault as fault:
        raise UsageError(f"--allow-host {fault.problem}", hint=HOST_HINT) from fault
    try:
        return hosts, secrets_of(list(secrets), ()) if secrets else None
    except Fault as fault:
        raise UsageError(f"--secret {fault.problem}", hint=PLACE_HINT) from fault


HOST_HINT = (
    "write HOST[:PORT], such as api.example.org or 10.1.2.3:8080; HOST=private where its name leads"
    " into your own network; `index` for the package indexes, `git` for the repository's origin"
)
PLACE_HINT = "write NAME@HOST[:PORT]: the variable NAME of the engine, used at that host alone"


def granted(spec: PlanSpec, settings: Configuration, environ: Mapping[str, str]) -> PlanSpec:
    """Return `spec` with what it may reach. Raises UsageError naming what does not fit."""
    hosts = settings.value("network.allow_hosts") or ()
    secrets = settings.value("secrets") or ()
    words = [each.partition("=") for each in hosts if GATEWAY.fullmatch(each)]
    names = tuple(dict.fromkeys(name for name, _, _ in words))
    near = next((near for _, _, near in words if near), "")
    grant = NetworkGrant(
        hosts=tuple(str(rule_of(each)) for each in hosts if not GATEWAY.fullmatch(each)),
        gateways=names,
        secrets=tuple(str(secret_of(each)) for each in secrets),
        repository=origin_of(spec.repository) if GIT in names else "",
        repository_near=near,
        planning=bool(settings.value("network.planning")),
    )
    sizes = {name: settings.value(f"network.{name}") for name in SIZES}
    grant = replace(grant, **{name: size for name, size in sizes.items() if size is not None})
    if not grant or not _has_walls(spec, settings):
        return spec
    for each in grant.secrets:
        require_secret(secret_of(each), environ)
    return replace(spec, network=grant)


def _has_walls(spec: PlanSpec, settings: Configuration) -> bool:
    """Whether a gateway stands before the plan's work. Raises UsageError where one was asked for.

    What files and projects say in general counts for nothing where there are no walls.
    """
    route = route_of(spec, COMMAND)
    kind = route.kind
    if kind not in UNCONFINED:
        return True
    said = (("--allow-host", "network.allow_hosts"), ("--secret", "secrets"))
    for option, name in said:
        if settings.said_by(name, "option") and spec.walls_at(route.site) not in UNCONFINED:
            raise UsageError(
                f"{route.site} is on another machine, where no gateway of this one is reached:"
                f" {option} means nothing there",
                hint=f"leave {option} out, or work here: --in process",
            )
        if settings.said_by(name, "option"):
            raise UsageError(
                f"{kind} has all of its machine's network, no gateway stands before it: {option}"
                " means nothing there",
                hint=f"leave {option} out, or work in a place with walls: --in process",
            )
    return False


def origin_of(checkout: str) -> str:
    """Return the address that a checkout came from. Raises UsageError where git cannot read it.

    What it holds of a user and a password is left out: `--secret basic:NAME@HOST` says that.
    """
    git = ForeignGit(
        home=Path("/"),
        config=Path("/dev/null"),
        further={"safe.directory": checkout},
        known=ITS_OWN,
    )
    words = ("config", "--no-includes", "--get", "remote.origin.url")
    address = text(git.attempt(*words, cwd=Path(checkout)).out)
    try:
        parts = urlsplit(address)
        plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        repository_rule(NetworkGrant(repository=plain))
    except (Misnamed, ValueError) as error:
        what = "has no remote named origin" if not address else "did not come by http or https"
        raise UsageError(
            f"--allow-host git: this repository {what}",
            hint="git remote set-url origin https://HOST/PATH, or leave `git` out",
        ) from error
    return plain


__all__ = ["HOST_HINT", "PLACE_HINT", "SIZES", "asked_network", "granted", "origin_of"]
