"""Reading the task's repository from where it came: git's smart HTTP, upload-pack and no more."""

import re
from collections.abc import Mapping
from http import HTTPStatus

from patchyard.clients.gateway_server import Refused
from patchyard.clients.proxy_head import Head, Target
from patchyard.domain.network import NetworkGrant, repository_rule
from patchyard.domain.permits import Permit, Permits

FOLDER = "/git/"
NAME = "repository.git"
READ = re.compile(
    re.escape(f"{FOLDER}{NAME}") + r"(/info/refs\?service=git-upload-pack|/git-upload-pack)"
)
UPLOAD = "application/x-git-upload-pack-request"


def git_target(head: Head, permits: Permits) -> tuple[Target, Permit]:
    """Return what a request of git's asks for outside. Raises Refused for all but reading."""
    match = READ.fullmatch(head.target)
    is_asking = match is not None and match[1].startswith("/info/")
    if match is None or head.method != ("GET" if is_asking else "POST"):
        raise Refused(HTTPStatus.FORBIDDEN, "the git gateway reads this repository, nothing else")
    if not is_asking and head.header("content-type") != UPLOAD:
        raise Refused(HTTPStatus.FORBIDDEN, "the git gateway takes no other kind of body")
    rule, path = repository_rule(permits.grant)
    target = Target(host=rule.host, port=rule.port, path=f"{path}{match[1]}", prefix="/git")
    secrets = [
        each
        for each in permits.secrets
        if (each.rule.place, each.rule.is_plain) == (rule.place, rule.is_plain)
    ]
    secret = permits.best(secrets, path)
    return target, Permit(rule=rule, secret=secret)


def git_variables(root: str, grant: NetworkGrant) -> Mapping[str, str]:
    """Return what lets git inside find the repository under its own address."""
    address = grant.repository.rstrip("/")
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{root}{FOLDER}{NAME}.insteadOf",
        "GIT_CONFIG_VALUE_0": address,
        "PATCHYARD_ORIGIN": address,
    }


__all__ = [
    "FOLDER",
    "NAME",
    "READ",
    "UPLOAD",
    "git_target",
    "git_variables",
]
