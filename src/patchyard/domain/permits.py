"""Whether a plan's grant lets something pass, by which rule and with which secret. Pure."""

from dataclasses import dataclass, replace
from functools import cached_property

from patchyard.domain.network import (
    HostRule,
    NetworkGrant,
    SecretRule,
    is_below,
    rule_of,
    secret_of,
)

USUAL_PORTS = {"http": (80, 443), "https": (443,)}  # plain HTTP to the gateway is TLS outside


@dataclass(frozen=True, kw_only=True)
class Permit:
    """What may pass, and how."""

    rule: HostRule
    secret: SecretRule | None = None  # that the gateway adds


@dataclass(frozen=True)
class Permits:
    """A grant, read once."""

    grant: NetworkGrant

    @cached_property
    def hosts(self) -> tuple[HostRule, ...]:
        """The rules of hosts."""
        return tuple(rule_of(text) for text in self.grant.hosts)

    @cached_property
    def secrets(self) -> tuple[SecretRule, ...]:
        """The secrets by place."""
        return tuple(secret_of(text) for text in self.grant.secrets)

    @property
    def opened(self) -> tuple[HostRule, ...]:
        """The rules that secrets bring, for hosts that have none of their own."""
        return tuple(each.rule for each in self.secrets)

    def tunnel(self, host: str, port: int) -> HostRule | None:
        """Return the rule that lets a CONNECT pass; one that the gateway must read lets none."""
        fitting = (rule for rule in self.hosts if (rule.host, rule.port) == (host, port))
        return next((rule for rule in fitting if not rule.is_narrow), None)

    def web(
        self, method: str, host: str, port: int | None, path: str, *, scheme: str
    ) -> Permit | None:
        """Return what lets a request pass that the gateway reads; `path` is without its query."""
        for each in (port,) if port is not None else USUAL_PORTS[scheme]:
            found = self._at(method, host, each, path)
            if found is not None and not (found.rule.is_plain and scheme == "https"):
                return found
        return None

    def _at(self, method: str, host: str, port: int, path: str) -> Permit | None:
        place = (host, port)
        secrets = [each for each in self.secrets if (each.rule.host, each.rule.port) == place]
        named = [rule for rule in self.hosts if (rule.host, rule.port) == place]
        # A secret opens its host where no rule of its own names that.
        pool = named or [each.rule for each in secrets]
        rule = next((rule for rule in pool if rule.admits(method, path)), None)
        if rule is None:
            return None
        secret = self.best(secrets, path)
        if secret is None:
            return Permit(rule=rule)
        own = secret.rule
        rule = replace(rule, is_plain=own.is_plain, near=rule.near or own.near)
        return Permit(rule=rule, secret=secret)

    @staticmethod
    def best(secrets: list[SecretRule], path: str) -> SecretRule | None:
        """Return the secret of the longest path that fits."""
        fitting = [each for each in secrets if is_below(path, each.rule.path)]
        return max(fitting, key=lambda each: len(each.rule.path), default=None)


__all__ = ["USUAL_PORTS", "Permit", "Permits"]
