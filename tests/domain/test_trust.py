"""A repository is input, not authority: what counts before and after trust, key by key."""

from dataclasses import replace
from typing import Any

import pytest

from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.faults import Fault
from patchyard.domain.limit_settings import LIMIT_KEYS, LimitSettings
from patchyard.domain.resource import Resource
from patchyard.domain.settings import KEYS, RESERVED, parse_settings
from patchyard.domain.trust import ALWAYS, NEVER, admit, bare_in, digest_of, stricter, warning

KNOWN = frozenset({*KEYS, *RESERVED})

NOT_ITS = "(never a repository's to decide)"
HOSTS = {"execute_command": {"execution_environment": "host"}}

DANGEROUS: dict[str, Any] = {
    "adapters": {"x": "y:Z"},
    "agent": "recipe",
    "allow_paths": [".github/*"],
    "analysis": {"map_tokens": 50_000},
    "apply": "worktree",
    "automation_profile": "full-auto",
    "execution_env_discovery": True,
    "execution_env_priority": "override",
    "execution_environment": "process",
    "forges": {"f": {}},
    "hosts": {"h": {}},
    "images": {"python": "house/evil"},
    "include": [".env"],
    "mcp_servers": {"m": {"command": "x"}},
    "model": "openai:gpt-4o",
    "mounts": ["/etc"],
    "network": {"allow_hosts": ["example.invalid"]},
    "providers": {"house": {"base_url": "http://example.invalid", "api_key_env": "HOME"}},
    "role": "developer",
    "roles": ["developer", "reviewer"],
    "checkpoints": {"auto_create_on": []},
    "safety": {"allow_unsafe_tools": True},
    "secrets": ["TOKEN@example.invalid"],
    "tools": {"execute_command": {"execution_environment": "process"}},
    "variables": {"PATH": "/tmp"},
}


def test_every_known_key_is_in_a_table_or_counts_always() -> None:
    assert set(DANGEROUS) | ALWAYS | NEVER == KNOWN


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_repository_never_sets_the_budget_that_other_plans_share(*, is_trusted: bool) -> None:
    stated = {
        "budget": {"total_usd": 1e6},
        "keep": {"journals": "1s"},
        "pool": {"size": 99},
        "slots": {"per_project": 99},
        "validate": ["make"],
    }
    admitted = admit(stated, KNOWN, is_trusted=is_trusted)
    assert (dict(admitted.body), admitted.ignored) == (
        {"validate": ["make"]},
        ("budget", "keep", "pool", "slots"),
    )


@pytest.mark.parametrize("key", sorted(DANGEROUS))
def test_a_dangerous_key_is_ignored_and_named_before_trust(key: str) -> None:
    admitted = admit({key: DANGEROUS[key], "validate": ["make"]}, KNOWN, is_trusted=False)
    assert dict(admitted.body) == {"validate": ["make"]}
    assert admitted.ignored == (key,)
    assert key in warning(admitted.until_trust, admitted.never)


@pytest.mark.parametrize("key", sorted(set(DANGEROUS) - set(RESERVED)))
def test_it_counts_after_trust(key: str) -> None:
    admitted = admit({key: DANGEROUS[key]}, KNOWN, is_trusted=True)
    assert admitted.ignored == ()
    assert getattr(parse_settings(admitted.body), key) is not None


@pytest.mark.parametrize("key", sorted(RESERVED))
def test_what_this_version_cannot_do_is_refused_where_it_would_count(key: str) -> None:
    with pytest.raises(Fault, match="this version"):
        parse_settings({key: DANGEROUS[key]})


@pytest.mark.parametrize("name", ["host", " Host ", "LOCAL", "Mock", "ssh", " Far"])
@pytest.mark.parametrize("is_trusted", [False, True])
def test_nothing_in_a_repository_names_a_kind_without_walls(name: str, *, is_trusted: bool) -> None:
    body = {
        "execution_environment": name,
        "tools": {
            "execute_command": {"execution_environment": name},
            "grep_search": {"preference": "specific", "target_resource": name},
            "read_file": {"execution_environment": "process"},
        },
    }
    far, boxed = (Resource(name=each, type="ssh-host") for each in ("Far", "boxed"))
    boxed = replace(boxed, carries=ExecutionEnvironment.CONTAINER)
    admitted = admit(body, KNOWN, is_trusted=is_trusted, bare=bare_in([far, boxed]))
    settings = parse_settings(admitted.body)
    assert settings.execution_environment is None
    assert set(settings.tools or {}) <= {"read_file"}
    assert "execution_environment" in admitted.ignored


def test_a_trusted_repository_names_a_host_that_carries_walls() -> None:
    boxed = Resource(name="boxed", type="ssh-host", carries=ExecutionEnvironment.CONTAINER)
    body = {"execution_environment": "boxed"}
    assert admit(body, KNOWN, is_trusted=True, bare=bare_in([boxed])).body == body


@pytest.mark.parametrize("key", LIMIT_KEYS)
def test_a_limit_of_a_repository_counts_when_stricter_and_never_when_weaker(key: str) -> None:
    own = LimitSettings(**{key: 10})
    less, more = LimitSettings(**{key: 5}), LimitSettings(**{key: 20})
    assert stricter(own, less, is_trusted=False) == (less, ())
    assert stricter(own, more, is_trusted=False) == (LimitSettings(), (f"limits.{key}",))
    assert stricter(own, more, is_trusted=True) == (more, ())
    assert stricter(LimitSettings(), more, is_trusted=False) == (more, ())
    assert stricter(own, None, is_trusted=False) == (LimitSettings(), ())


def test_a_settings_file_that_is_no_mapping_is_left_to_the_reader() -> None:
    listed: Any = ["x"]
    assert admit(listed, KNOWN, is_trusted=False).body is listed
    assert admit({"vaildate": 1}, KNOWN, is_trusted=False).body == {"vaildate": 1}
    assert warning((), ()) == ""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"mounts": ["/etc"], "model": "a:b"}, " until `agents trust`: mounts, model"),
        (
            {"execution_environment": "host", "validate": ["make"]},
            f": execution_environment {NOT_ITS}",
        ),
        ({"keep": {}, "budget": {}}, f": budget, keep {NOT_ITS}"),
        (
            {"slots": {}, "mcp_servers": {}, "hosts": {}},
            f" until `agents trust`: mcp_servers; with or without it: slots, hosts {NOT_ITS}",
        ),
        (
            {"agent": "recipe", "tools": HOSTS},
            f" until `agents trust`: agent; with or without it: tools.execute_command {NOT_ITS}",
        ),
        (
            {"tools": {**HOSTS, "read_file": {"execution_environment": "process"}}},
            f" until `agents trust`: tools; with or without it: tools.execute_command {NOT_ITS}",
        ),
    ],
)
def test_the_warning_tells_what_trust_brings_from_what_is_never_a_repositorys(
    body: dict[str, Any], said: str
) -> None:
    before = admit(body, KNOWN, is_trusted=False)
    assert warning(before.until_trust, before.never) == (
        f"ignored from this repository's settings{said}"
    )
    after = admit(body, KNOWN, is_trusted=True)
    assert after.until_trust == ()
    assert set(after.never) == set(before.never) - set(RESERVED)
    assert set(before.until_trust) <= set(after.body)


def test_the_hash_is_of_paths_and_contents() -> None:
    assert digest_of({}) == ""
    found = {
        digest_of({"a": b"b"}), digest_of({"ab": b""}), digest_of({"a": b"bc"}),
        digest_of({"a": b"b", "c": b""}), digest_of({"a": b"", "b": b""}),
    }  # fmt: skip
    assert len(found) == 5
    assert digest_of({"a": b"1", "b": b"2"}) == digest_of({"b": b"2", "a": b"1"})
