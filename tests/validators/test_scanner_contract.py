"""One suite for all scanners: what each finds in lines, and what it leaves alone."""

from functools import partial
from pathlib import Path

import pytest

from patchyard.contracts.validator import Scanner
from patchyard.domain.gates import SCANS, Reads
from patchyard.registry import SCANNERS, load
from patchyard.validators.licences import LicenceScanner
from patchyard.validators.secrets import SecretScanner
from timing import require_linear

# Made up for this page, and cut in two so that no scanner of other people finds them in here.
SECRETS = {
    "private-key": "-----BEGIN RSA PRIVATE" + " KEY-----",
    "aws-key": "key = 'AKIA" + "Q3EGRIV7NBO5LXT2'",
    "github-token": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "gitlab-token": "TOKEN: glpat-" + "a1B2c3D4e5F6g7H8i9J0",
    "slack-token": "xoxb-" + "123456789012-abcdefghij",
    "stripe-key": "sk_live" + "_4eC39HqLyjWDarjtT1zdp7dc",
    "google-key": "AIza" + "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
    "model-key": "sk-ant-" + "api03-a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6",
    "npm-token": "//registry/:_authToken=npm_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "jwt": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "password-in-url": "postgres://app:" + "s3cr3tPa55@db.invalid:5432/app",
    "named-secret": 'password = "hQ7x92' + 'Lmz01pTt"',
}
HARMLESS = (
    'password = ""',
    "password = os.environ['DB_PASSWORD']",
    'token = "<your token here>"',
    'api_key: "${API_KEY}"',
    'secret = "changeme"',
    'password = "correct horse battery staple"',
    "def verify_password(password: str, expected_token: str) -> bool:",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    'token_url = "https://login.example.invalid/oauth/token"',
    "AKIAIOSFODNN7EXAMPLE",
    "https://user:password@${HOST}/",
    '    name_of_secret = "database-password"',
)
LICENCES = (
    ("COPYING", "                    GNU GENERAL PUBLIC LICENSE"),
    ("a.py", "# SPDX-License-Identifier: MIT OR GPL-3.0-or-later"),
    ("b.c", " * under the terms of the GNU Lesser General Public License as published"),
    ("package.json", '  "license": "AGPL-3.0",'),
    ("pyproject.toml", 'license = "GPLv3"'),
)
HOSTILE = (
    *(("", again) for again in ("a", "password=", "GNU ", "://a:", "eyJ.", 'license="')),
    *(("", "SPDX-License-Identifier: "), ("secret", "-"), ("token: '", "x")),
    ("-----BEGIN ", "A "),
)


def scanner(reads: str) -> Scanner:
    made: Scanner = load(SCANNERS[Reads(reads)])(Path())
    return made


@pytest.mark.parametrize("before", [0, 3990, 4990, 5000, 60_000])
@pytest.mark.parametrize("rule", sorted(SECRETS))
def test_a_credential_is_found_wherever_it_stands_in_a_long_line(rule: str, before: int) -> None:
    line = f"{'x ' * (before // 2)} {SECRETS[rule]}"
    assert [each.rule for each in SecretScanner(Path()).scan({"a": {1: line}})] == [rule]


def test_a_name_and_what_only_looks_like_a_value_where_a_long_line_is_parted_are_none() -> None:
    line = f"{'x ' * 2470} token={'a1B2c3D4e5F6g7H8i9J0k1L2m3' * 30}"
    assert SecretScanner(Path()).scan({"a": {1: line}}) == []


@pytest.mark.parametrize("rule", sorted(SECRETS))
def test_a_credential_is_found_in_its_line_and_never_repeated(rule: str) -> None:
    (finding,) = SecretScanner(Path()).scan({"a.py": {7: SECRETS[rule], 9: "x = 1"}})
    assert (finding.path, finding.line, finding.rule) == ("a.py", 7, rule)
    assert finding.message == f"it looks like a credential ({rule})"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_one_is_left_alone(text: str) -> None:
    assert SecretScanner(Path()).scan({"a.py": {1: text}}) == []


@pytest.mark.parametrize(("path", "text"), LICENCES)
def test_a_licence_that_asks_the_same_of_all_is_found(path: str, text: str) -> None:
    (finding,) = LicenceScanner(Path()).scan({path: {2: text, 1: "x"}})
    assert (finding.path, finding.line, finding.rule) == (path, 2, "copyleft")


def test_other_licences_and_what_stands_deep_in_a_file_are_left_alone() -> None:
    permissive = {"LICENSE": {1: "Apache License", 2: "MIT License"}, "p": {1: 'license = "MIT"'}}
    deep = {"notes.md": {900: "GNU GENERAL PUBLIC LICENSE"}}
    assert LicenceScanner(Path()).scan({**permissive, **deep}) == []


def _scanned(one: Scanner, name: str, begin: str, again: str, size: int) -> None:
    one.scan({name: {1: begin + again * (size // len(again))}})


@pytest.mark.parametrize("reads", sorted(SCANNERS))
def test_lines_that_are_made_to_be_slow_are_not(reads: str) -> None:
    one = scanner(reads)
    for name in ("a", "requirements.txt", "package-lock.json", "go.mod", "uv.lock"):
        for begin, again in HOSTILE:
            require_linear(partial(_scanned, one, name, begin, again), 40_000)


def test_every_gate_without_a_command_has_a_scanner() -> None:
    assert set(SCANNERS) == SCANS
