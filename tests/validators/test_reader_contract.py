"""One suite for all readers of reports: what they say of a good one, and of any other."""

import random
from typing import Any

import pytest

from patchyard.domain.gate_findings import Reading, UnreadableReport
from patchyard.domain.gates import Gate, Reads
from patchyard.domain.shipped_gates import SHIPPED
from patchyard.registry import READERS, load
from validators.language_reports import CARGO, GO, SCRIPTS, SUREFIRE, UNBUILT

ROOT = "/home/ada/shop"
JUNIT = b"""<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" tests="3">
<testcase classname="tests.test_shop" name="test_double" file="tests/test_shop.py" line="3">
<failure message="assert 11 == 10">def test_double():
>       assert shop.double(5) == 10
tests/test_shop.py:5: AssertionError</failure></testcase>
<testcase classname="tests.test_shop" name="test_fine" file="tests/test_shop.py" line="8" />
<testcase classname="tests.test_shop" name="test_later"><skipped message="later"/></testcase>
</testsuite></testsuites>"""
SARIF = b"""{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "ruff"}}, "results": [
 {"ruleId": "F401", "level": "error", "message": {"text": "`json` imported but unused"},
  "locations": [{"physicalLocation": {"artifactLocation": {"uri": "file:///home/ada/shop/a%20b.py"},
  "region": {"startLine": 5}}}]},
 {"ruleId": "X", "suppressions": [{"kind": "inSource"}], "message": {"text": "silenced"}},
 {"ruleId": "Y", "kind": "pass", "message": {"text": "fine"}}]}]}"""
COVERAGE = b"""<?xml version="1.0" ?><!DOCTYPE coverage SYSTEM "http://example.invalid/coverage.dtd">
<coverage><sources><source>/home/ada/shop/src</source></sources><packages><package><classes>
<class filename="shop.py"><lines><line number="1" hits="1"/><line number="2" hits="0"/></lines>
</class></classes></package></packages></coverage>"""
MYPY = b"""{"file": "shop.py", "line": 23, "message": "Incompatible return value type",
 "code": "return-value", "severity": "error"}
""".replace(b"\n ", b" ")
ESLINT = b"""[{"filePath": "/home/ada/shop/web/a.js", "messages": [{"ruleId": "no-unused-vars",
 "severity": 2, "message": "'x' is defined but never used.", "line": 7}]}]"""
BANDIT = b"""{"errors": [], "results": [{"filename": "./shop.py", "issue_severity": "MEDIUM",
 "issue_text": "Possible SQL injection", "line_number": 21, "test_id": "B608"}]}"""
TEXT = b"""src/a.ts(3,5): error TS2322: Type 'string' is not assignable to type 'number'.
./main.go:12:2: unreachable code
shop.py:4: error: Missing return statement  [return]
Would reformat: pkg/x.py
[warn] web/a.css
[warn] Code style issues found in 1 file. Run Prettier with --write to fix.
cmd/b.go
unformatted: File would be reformatted
 --> bad.py:2:1
  | 1 + import os
src/main.rs:1:17: warning: unused variable: `x`: help: prefix it with an underscore: `_x`
would reformat /home/ada/shop/bad.py
1 file would be reformatted
Oh no!
src/Shop.java:8: warning: [rawtypes] found raw type: List
[INFO] Compiling 1 source file to /home/ada/shop/target/classes
[WARNING] /home/ada/shop/src/Shop.java:[8,8] [rawtypes] found raw type: List
[ERROR] /home/ada/shop/src/Shop.java:[9,16] incompatible types: String cannot be converted to int
[ERROR] Failed to execute goal on project shop: Compilation failure
[ERROR] /home/ada/shop/src/Shop.java:[9,16] incompatible types: String cannot be converted to int
src/lib.rs:3:9: error[E0308]: mismatched types: expected `i32`, found `&str`
[error] web/b.js: SyntaxError: Unexpected token (2:10)
[error]   1 | function {
vet: cart/cart.go:2:24: cannot use "x" (untyped string constant) as int value
"""

GOOD: list[tuple[str, bytes, Gate, list[tuple[str, int, str, str]]]] = [
    (Reads.JUNIT, JUNIT, SHIPPED["pytest"], [("tests/test_shop.py", 5, "failed", "error")]),
    (Reads.SARIF, SARIF, SHIPPED["ruff"], [("a b.py", 5, "F401", "error")]),
    (Reads.COVERAGE, COVERAGE, SHIPPED["coverage"], []),
    (Reads.JSON, MYPY, SHIPPED["mypy"], [("shop.py", 23, "return-value", "error")]),
    (Reads.JSON, MYPY * 2, SHIPPED["mypy"], [("shop.py", 23, "return-value", "error")] * 2),
    (Reads.JSON, ESLINT, SHIPPED["eslint"], [("web/a.js", 7, "no-unused-vars", "error")]),
    (Reads.JSON, BANDIT, SHIPPED["bandit"], [("shop.py", 21, "B608", "warning")]),
    (Reads.TEXT, TEXT, SHIPPED["tsc"], [
        ("src/a.ts", 3, "TS2322", "error"), ("main.go", 12, "", "warning"),
        ("shop.py", 4, "return", "error"), ("pkg/x.py", 0, "", "warning"),
        ("web/a.css", 0, "", "warning"), ("cmd/b.go", 0, "", "warning"),
        ("bad.py", 2, "", "warning"),
        ("src/main.rs", 1, "", "warning"), ("bad.py", 0, "", "warning"),
        ("src/Shop.java", 8, "rawtypes", "warning"), ("src/Shop.java", 8, "rawtypes", "warning"),
        ("src/Shop.java", 9, "", "error"), ("src/lib.rs", 3, "E0308", "error"),
        ("web/b.js", 2, "", "error"), ("cart/cart.go", 2, "", "warning"),
    ]),
    (Reads.JUNIT, SUREFIRE, SHIPPED["mvn-test"], [
        ("src/test/java/shop/ShopTest.java", 10, "failed", "error"),
        ("src/test/java/shop/ShopTest.java", 20, "error", "error"),
        ("src/main/java/shop/Shop.java", 8, "error", "error"), ("", 0, "failed", "error"),
    ]),
    (Reads.JUNIT, SCRIPTS, SHIPPED["node-test"], [
        ("test/a b.test.js", 10, "failed", "error"), ("test/v.test.js", 4, "failed", "error"),
        ("test/m.js", 4, "failed", "error"), ("test/j.test.cjs", 2, "failed", "error"),
        ("test/k.test.cjs", 0, "failed", "error"),
    ]),
    (Reads.GO_TEST, GO, SHIPPED["go-test"], [
        ("typed/typed.go", 4, "", "error"), ("new/n.go", 2, "", "error"),
        ("cart/cart_test.go", 7, "failed", "error"), ("a_test.go", 15, "failed", "error"),
        ("", 0, "failed", "error"), ("", 0, "failed", "error"),
    ]),
    (Reads.CARGO_TEST, CARGO, SHIPPED["cargo-test"], [
        ("src/lib.rs", 26, "failed", "error"), ("", 0, "failed", "error"),
        ("src/lib.rs", 15, "failed", "error"), ("tests/old.rs", 1, "failed", "error"),
        ("", 0, "crashed", "error"), ("src/lib.rs", 5, "failed", "error"),
    ]),
    (Reads.CARGO_TEST, UNBUILT, SHIPPED["cargo-test"], [("src/lib.rs", 3, "E0308", "error")]),
    (Reads.NUMBER, b"1000 loops\nbest of 5: 12.5 usec, v2\n", Gate(name="n"), []),
]  # fmt: skip


def read(reads: str, report: bytes, gate: Gate | None = None) -> Reading:
    reader = load(READERS[Reads(reads)])()
    found: Reading = reader.read(report, gate or _gate(reads), root=ROOT)
    return found


def _gate(reads: str) -> Gate:
    return next((gate for known, _, gate, _ in GOOD if known == reads), Gate(name="x"))


@pytest.mark.parametrize(("reads", "report", "gate", "expected"), GOOD)
def test_a_good_report_is_read_with_file_line_and_rule(
    reads: str, report: bytes, gate: Gate, expected: list[Any]
) -> None:
    found = read(reads, report, gate).findings
    assert [(f.path, f.line, f.rule, str(f.severity)) for f in found] == expected


def test_what_is_no_finding_is_read_too() -> None:
    assert read("junit", JUNIT).tests == {
        "tests.test_shop::test_double": "failed",
        "tests.test_shop::test_fine": "passed",
        "tests.test_shop::test_later": "skipped",
    }
    go, cargo = read("go-test", GO), read("cargo-test", CARGO)
    assert go.tests == {
        "example.org/shop/cart.TestA/one": "failed", "example.org/shop/cart.TestA": "failed",
        "example.org/shop.TestP": "failed", "example.org/shop.TestQ": "passed",
        "example.org/shop.TestS": "skipped",
    }  # fmt: skip
    assert [each.message for each in go.findings[2:]] == [
        "example.org/shop/cart.TestA/one: got 7",
        "example.org/shop.TestP: panic: assignment to entry in nil map",
        "example.org/shop/loop: FAIL example.org/shop/loop [setup failed]",
        "example.org/shop/main: exit status 3",
    ]
    assert cargo.tests == {
        "shop (src/lib.rs)::tests::later": "skipped", "shop (src/lib.rs)::tests::four": "passed",
        "shop (src/lib.rs)::tests::quiet": "failed", "shop (src/lib.rs)::tests::res": "failed",
        "shop (src/lib.rs)::tests::two": "failed", "old (tests/old.rs)::m::two": "failed",
        "shop (documentation)::src/lib.rs - triple": "failed",
    }  # fmt: skip
    assert [each.message.partition(")::")[2] for each in cargo.findings[:4]] == [
        "tests::quiet: note: test did not panic as expected",
        'tests::res: Error: "no"',
        "tests::two: assertion `left == right` failed: not five",
        "m::two: no, never",
    ]
    assert read("coverage", COVERAGE).lines == {"src/shop.py": {1: True, 2: False}}
    assert read("number", GOOD[-1][1]).number == 12.5


ENTITIES = (
    b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><testsuite>&b;</testsuite>'
)
FILE_ENTITY = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><testsuite>&a;</testsuite>'
HOSTILE = {
    "other-xml": b"<html>fine</html>",
    "spaces": b"  \n",
    "item-no-object": b'{"results": ["x"], "file": 1}',
    "item-empty": b'{"results": [{}]}',
    "nothing": b"",
    "text": b"all tests passed, honestly\n",
    "nul": b"\0" * 5000,
    "entities": ENTITIES,
    "file": FILE_ENTITY,
    "deep-xml": b"<testsuite>" * 100_000,
    "deep-json": b"[" * 200_000,
    "other-json": b'{"runs": {"a": 1}, "results": 7}',
    "odd-runs": b'{"runs": [{"results": ["x"]}]}',
    "no-lists": b'{"runs": [7]}',
    "large-number": b'{"a": ' + b"9" * 10_000 + b"}",
    "wrong-encoding": b'<?xml version="1.0" encoding="klingon"?><testsuite/>',
    "utf-16": "<testsuite/>".encode("utf-16"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
@pytest.mark.parametrize("reads", sorted({known for known, *_ in GOOD} - {Reads.TEXT}))
def test_a_hostile_report_is_refused_or_says_nothing(reads: str, name: str) -> None:
    try:
        found = read(reads, HOSTILE[name])
    except UnreadableReport:
        found = Reading()
    assert not found.findings
    assert not found.tests


@pytest.mark.parametrize(("reads", "report", "gate", "expected"), GOOD)
def test_damage_never_raises_anything_else(
    reads: str, report: bytes, gate: Gate, expected: list[Any]
) -> None:
    del expected
    chance = random.Random(5)
    for _ in range(150):
        data = bytearray(report)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(data))
            data[at : at + chance.randrange(9)] = chance.choice(
                [b"", b"null", b"[]", b"{}", b'"', b"<", b"&#0;", b"\xff", b"-1", b"1e999", b"\n"]
            )
        try:
            read(reads, bytes(data), gate)
        except UnreadableReport:
            continue


@pytest.mark.parametrize("path", ["/etc/passwd", "../x.py", "a/../../x.py", "/home/ada/shopping/x"])
def test_a_path_outside_the_tree_is_taken_away_and_the_finding_stays(path: str) -> None:
    report = SARIF.replace(b"file:///home/ada/shop/a%20b.py", path.encode())
    assert [(f.path, f.rule) for f in read("sarif", report).findings] == [("", "F401")]


def _numbered(count: int) -> bytes:
    return b"".join(b'<testcase name="%d"/>' % number for number in range(count))


def test_more_than_anybody_can_compare_is_refused() -> None:
    with pytest.raises(UnreadableReport, match="more than 10,000"):
        read("json", MYPY * 10_001)
    with pytest.raises(UnreadableReport, match="more than 10,000"):
        read("text", b"a.py:1: x\n" * 10_001, SHIPPED["tsc"])
    cases = b'<testcase name="a"><failure/></testcase>' * 10_001
    with pytest.raises(UnreadableReport, match="more than 10,000"):
        read("junit", b"<testsuite>" + cases + b"</testsuite>")
    with pytest.raises(UnreadableReport, match="more than 200,000 tests"):
        read("junit", b"<testsuite>" + _numbered(200_001) + b"</testsuite>")
    with pytest.raises(UnreadableReport, match="more than 16,777,216 bytes"):
        read("json", b" " * 16_777_217)
    result = b'{"ruleId": "a"},' * 10_001
    with pytest.raises(UnreadableReport, match="more than 10,000"):
        read("sarif", b'{"runs": [{"results": [' + result.rstrip(b",") + b"]}]}")


def test_every_reader_has_a_good_report_here() -> None:
    assert {known for known, *_ in GOOD} == set(READERS)
