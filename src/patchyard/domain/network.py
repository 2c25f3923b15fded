"""What a plan may reach beyond its environment: hosts by rule, gateways by name, secrets by place.

Pure. Texts are the user's; `rule_of` and `secret_of` give them their one meaning.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from patchyard.domain.addresses import Misnamed, Nearness, literal, nearness, parted, shown

INDEX = "index"  # the package indexes of pip's and npm's settings
GIT = "git"  # reading the task's own repository where it came from
GATEWAYS = (GIT, INDEX)
GATEWAY = re.compile(r"index|git(?:=(?:private|loopback))?")  # where the repository may lie
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
READING = ("GET", "HEAD")
SCHEMES = ("basic", "bearer", "token")
WEB_PORTS = {"http": 80, "https": 443}

RULE = re.compile(r"(?:(?P<methods>[A-Z,]+) +)?(?P<plain>https?://)?(?P<where>[^/=\s]+)"
                  r"(?:=(?P<near>[a-z-]+))?(?P<path>/\S*)?")  # fmt: skip
AMBIGUOUS = re.compile(
    r"[\\\x00-\x20\x7f-\xff;#]|%(?:[01][0-9a-f]|2f|5c|25|7f|c0|c1)|%(?![0-9a-f]{2})",
    re.IGNORECASE,
)
"""What one server reads in another way than the next: control characters, slashes and percent signs
in disguise, characters that are longer than they need be (RFC 3629, 3), what is no encoding."""
SECRET = re.compile(r"(?:(?P<scheme>[a-z]+):)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)@(?P<rule>\S+)")


@dataclass(frozen=True, kw_only=True)
class HostRule:
    """One host that may be reached, and how."""

    host: str
    port: int
    is_plain: bool = False  # the gateway speaks to it without TLS
    near: str = ""  # private or loopback: what its name may lead to beside public addresses
    methods: tuple[str, ...] = ()  # with `path`: only these, through the gateway; empty: any
    path: str = ""  # prefix

    @property
    def is_narrow(self) -> bool:
        """Whether only what the gateway itself can read may pass, so no tunnel."""
        return bool(self.methods or self.path)

    @property
    def place(self) -> str:
        """Host and port."""
        return f"{shown(self.host)}:{self.port}"

    def admits(self, method: str, path: str) -> bool:
        """Whether a request that the gateway can read may pass."""
        return (not self.methods or method in self.methods) and is_below(path, self.path)

    def leads_to(self, near: Nearness) -> bool:
        """Whether the host may stand for an address of that nearness."""
        own = literal(self.host)
        if own is not None:  # the user named the very address
            return near != Nearness.NONE
        return near == Nearness.PUBLIC or (near != Nearness.NONE and near == self.near)

    def __str__(self) -> str:
        """Return the rule as people write it."""
        methods = f"{','.join(self.methods)} " if self.methods else ""
        scheme = "http://" if self.is_plain and self.port != 80 else ""
        is_known = _is_local(self.host) or not self.near
        return f"{methods}{scheme}{self.place}{'' if is_known else f'={self.near}'}{self.path}"


@dataclass(frozen=True, kw_only=True)
class SecretRule:
    """A secret by the name of the engine's variable that holds it, and where it is used."""

    name: str
    scheme: str  # of the Authorization header: bearer, basic (the value is user:password), token
    rule: HostRule

    def __str__(self) -> str:
        """Return the rule as people write it."""
        scheme = "" if self.scheme == "bearer" else f"{self.scheme}:"
        return f"{scheme}{self.name}@{self.rule}"


@dataclass(frozen=True, kw_only=True)
class NetworkGrant:
    """All that a plan may reach. Holds no secret value."""

    hosts: tuple[str, ...] = ()  # rules as text
    gateways: tuple[str, ...] = ()  # index, git
    secrets: tuple[str, ...] = ()  # [SCHEME:]NAME@HOST as text
    repository: str = ""  # address that the git gateway reads, without credentials
    repository_near: str = ""  # private or loopback, where it may lie there
    planning: bool = False  # reachable while planning, too
    max_connections: int = 64  # at once, of an environment
    max_call_bytes: int = 1024**3  # up and down together, during one call
    max_plan_bytes: int = 10 * 1024**3

    def __bool__(self) -> bool:
        """Whether anything may be reached."""
        return bool(self.hosts or self.gateways or self.secrets)


def repository_rule(grant: NetworkGrant) -> tuple[HostRule, str]:
    """Return where the repository lies, and its path there. Raises Misnamed."""
    parts = urlsplit(grant.repository)
    if parts.scheme not in WEB_PORTS or parts.username is not None:
        raise Misnamed(f"{grant.repository!r} is no web address")
    host, port = parted(parts.netloc)
    rule = HostRule(
        host=host,
        port=port or WEB_PORTS[parts.scheme],
        is_plain=parts.scheme == "http",
        near=grant.repository_near,
    )
    return rule, parts.path.rstrip("/")


def rule_of(text: str) -> HostRule:
    """Return the rule that `[METHODS ][http[s]://]HOST[:PORT][=CLASS][/PATH]` says.

    Raises Misnamed.
    """
    match = RULE.fullmatch(text.strip())
    if match is None:
        raise Misnamed(f"{text[:100]!r} is not HOST[:PORT]")
    said = match["plain"] or ""
    host, port = parted(match["where"])
    number = port or (80 if said == "http://" else 443)
    near, path = _near(host, match["near"] or ""), match["path"] or ""
    if path and not is_plain_path(path):
        raise Misnamed(f"{path[:100]!r} is no plain path")
    methods = tuple(sorted(set((match["methods"] or "").split(",")) - {""}))
    if unknown := [each for each in methods if each not in METHODS]:
        raise Misnamed(f"{unknown[0]!r} is none of {', '.join(METHODS)}")
    return HostRule(
        host=host,
        port=number,
        is_plain=said == "http://" or (not said and number == 80),
        near=near,
        methods=methods or (READING if path else ()),
        path=path,
    )


def _near(host: str, said: str) -> str:
    """Return which near addresses a host may lead to. Raises Misnamed."""
    address = literal(host)
    if address is not None:
        if said:
            raise Misnamed("an address says itself what it is; leave out what follows the =")
        if nearness(address) == Nearness.NONE:
            raise Misnamed(f"{host} is no address that one can reach")
        return ""
    if said not in {"", Nearness.PRIVATE, Nearness.LOOPBACK}:
        raise Misnamed(f"={said} is neither =private nor =loopback")
    return said or (str(Nearness.LOOPBACK) if _is_local(host) else "")


def _is_local(host: str) -> bool:
    """Whether a name means this machine wherever it is said (RFC 6761)."""
    return host == "localhost" or host.endswith(".localhost")


def secret_of(text: str) -> SecretRule:
    """Return what `[SCHEME:]NAME@HOST[:PORT]` says. Raises Misnamed."""
    match = SECRET.fullmatch(text.strip())
    if match is None:
        raise Misnamed(f"{text[:100]!r} is not NAME@HOST")
    scheme = match["scheme"] or "bearer"
    if scheme not in SCHEMES:
        raise Misnamed(f"{scheme!r} is none of {', '.join(SCHEMES)}")
    rule = replace(rule_of(match["rule"]), methods=())
    return SecretRule(name=match["name"], scheme=scheme, rule=rule)


def is_plain_path(path: str) -> bool:
    """Whether a path, without its query, leads where it says to: no server reads another from it.

    Encoded dots, slashes and backslashes count as what they stand for.
    """
    if not path.startswith("/") or AMBIGUOUS.search(path):
        return False
    parts = re.sub("%2e", ".", path, flags=re.IGNORECASE).split("/")
    return "//" not in path and not {".", ".."}.intersection(parts)


def is_below(path: str, prefix: str) -> bool:
    """Whether a path is `prefix` or lies below it; everything is below an empty one."""
    if not prefix:
        return True
    folder = prefix.rstrip("/") + "/"
    return is_plain_path(path) and (path == prefix or path.startswith(folder))


def told(grant: NetworkGrant) -> Sequence[Mapping[str, Any]]:
    """Return the hosts of a grant as people should read them: whether something can be sent there.

    A secret opens its host where no rule of its own names that.
    """
    rules = [rule_of(text) for text in grant.hosts]
    named = {rule.place for rule in rules}
    opened = [secret_of(text).rule for text in grant.secrets]
    rules += [rule for rule in opened if rule.place not in named]
    return [{"host": str(rule), "can_upload": can_upload(rule)} for rule in rules]


def instructions(grant: NetworkGrant) -> tuple[str, ...]:
    """Return how commands reach what was granted, a sentence each."""
    rules = [rule_of(text) for text in grant.hosts]
    secrets = [secret_of(text).rule for text in grant.secrets]
    said = [
        f"{rule.place}, through the proxy that the variables https_proxy and http_proxy name"
        for rule in rules
        if not rule.is_narrow
    ]
    said += [
        f"{rule}, as http:// to that proxy, which speaks TLS to the host and adds the credential"
        for rule in secrets
    ]
    said += [f"{rule}, as http:// to that proxy" for rule in rules if rule.is_narrow]
    if GIT in grant.gateways:
        said.append(f"the repository's origin, for reading: git fetch {grant.repository}")
    if INDEX in grant.gateways:
        said.append("the package indexes: pip, uv, npm and yarn find them by themselves")
    return tuple(said)


def can_upload(rule: HostRule) -> bool:
    """Whether a rule lets more than reading pass."""
    return not rule.methods or not set(rule.methods) <= set(READING)


__all__ = [
    "AMBIGUOUS",
    "GATEWAY",
    "GATEWAYS",
    "GIT",
    "INDEX",
    "METHODS",
    "READING",
    "RULE",
    "SCHEMES",
    "SECRET",
    "HostRule",
    "NetworkGrant",
    "SecretRule",
    "can_upload",
    "instructions",
    "is_below",
    "is_plain_path",
    "repository_rule",
    "rule_of",
    "secret_of",
    "told",
]
