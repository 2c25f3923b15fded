"""What the test runners of Java, Go and Rust write."""

import json

__all__ = ["CARGO", "GO", "SCRIPTS", "SUREFIRE", "UNBUILT"]

SUREFIRE = b"""<testsuites>
<source>./src/test/java/shop/ShopTest.java</source><source>./src/main/java/shop/Shop.java</source>
<source>./a/src/test/java/shop/SameTest.java</source>
<source>./b/src/test/java/shop/SameTest.java</source>
<testsuite name="shop.ShopTest" tests="4">
<testcase name="twice" classname="shop.ShopTest"><failure message="expected:5 but was:4">x
	at org.junit.Assert.fail(Assert.java:89)
	at shop.Shop.checked(Shop.java:4)
	at shop.ShopTest.twice(ShopTest.java:10)
	at java.base/jdk.internal.reflect.Direct.invoke(Direct.java:103)</failure></testcase>
<testcase name="inner" classname="shop.ShopTest"><error type="X">X
	at shop.Shop.lambda$made$0(Shop.java:7)
	at app//shop.ShopTest$Inner.inner(ShopTest.java:20)</error></testcase>
<testcase name="deep" classname="shop.OtherTest"><error type="X">X
	at shop.Shop.made(Shop.java:8)</error></testcase>
<testcase name="same" classname="shop.SameTest"><failure>X
	at shop.SameTest.same(SameTest.java:3)</failure></testcase>
</testsuite></testsuites>"""


def _event(action: str, test: str = "", *, package: str = "/cart", output: str = "") -> bytes:
    said = {"Action": action, "Package": f"example.org/shop{package}", "Elapsed": 0}
    said |= {"Test": test} if test else {}
    return json.dumps(said | ({"Output": output} if output else {})).encode()


def _built(output: str) -> bytes:
    return json.dumps({"ImportPath": "x", "Action": "build-output", "Output": output}).encode()


SCRIPTS = b"""<testsuites>
<testcase name="never" classname="test" failure="2 == 3"><failure message="2 == 3">
[Error [ERR_TEST_FAILURE]: 2 == 3] {
  cause: AssertionError [ERR_ASSERTION]: 2 == 3
      at TestContext.&lt;anonymous> (file:///home/ada/shop/test/a%20b.test.js:10:10)
      at Test.runInAsyncScope (node:async_hooks:206:9)
</failure></testcase>
<testcase classname="test/v.test.js" name="d &gt; a"><failure message="expected 1 to be 2">
 &#x276f; made node_modules/x/y.js:1:1
 &#x276f; made test/v.test.js:4:15
</failure></testcase>
<testcase classname="d" name="m" file="/home/ada/shop/test/m.js"><failure>1 == 2
    at helped (file:///home/ada/shop/src/m.js:1:1)
    at Context.&#x3C;anonymous&#x3E; (file:///home/ada/shop/test/m.js:4:12)
</failure></testcase>
<testcase classname=" j" name=" j" file="test/j.test.cjs"><failure>Error: expect(received)
    at /home/ada/shop/test/j.test.cjs:2:13
</failure></testcase>
<testcase classname=" k" name=" k" file="test/k.test.cjs"><failure>Error: nowhere</failure>
</testcase>
</testsuites>"""


GO = b"\n".join(
    (
        b'{"ImportPath":"example.org/shop","Dir":"/home/ada/shop"}',
        b'{"ImportPath":"example.org/shop/cart","Dir":"/home/ada/shop/cart"}',
        b"# example.org/shop/typed [example.org/shop/typed.test]",
        b"typed/typed.go:4:9: cannot use true (untyped bool constant) as int value",
        _event("start"),
        _event("output", "TestA", output="=== RUN   TestA\n"),
        _event("output", "TestA/one", output="    cart_test.go:7: got 7\n"),
        _event("output", "TestA", output="--- FAIL: TestA (0.00s)\n"),
        _event("fail", "TestA/one"),
        _event("fail", "TestA"),
        _event("output", "TestP", package="", output="panic: assignment to entry in nil map\n"),
        _event("output", "TestP", package="", output="\t/usr/lib/go/src/panic.go:884 +0x212\n"),
        _event("output", "TestP", package="", output="\t/home/ada/shop/a_test.go:15 +0x2e\n"),
        _event("fail", "TestP", package=""),
        _event("output", "TestQ", package="", output="--- PASS: TestQ (0.00s)\n"),
        _event("pass", "TestQ", package=""),
        # A program that ends itself well within a test: what is said of its package is said of it.
        _event("output", "TestGone", package="", output="ok  \texample.org/shop\t0.004s\n"),
        _event("pass", "TestGone", package=""),
        _event("skip", "TestS", package=""),
        _event("fail"),
        _event("output", package="/main", output="exit status 3\n"),
        _event("output", package="/main", output="FAIL\texample.org/shop/main\t0.1s\n"),
        _event("fail", package="/main"),
        # Go 1.24 and newer
        _built("# example.org/shop/new\n"),
        _built("new/n.go:2:1: syntax error\n"),
        _event("output", package="/new", output="FAIL\texample.org/shop/new [build failed]\n"),
        _event("fail", package="/new"),
        b"FAIL\texample.org/shop/typed [build failed]",
        b"FAIL\texample.org/shop/loop [setup failed]",
        b"{not an event",
    )
)

CARGO = b"""   Compiling shop v0.1.0 (/home/ada/shop)
src/lib.rs:1:5: warning: unused import: `std::fmt`
    Finished `test` profile [unoptimized + debuginfo] target(s) in 1.56s
     Running unittests src/lib.rs (target/debug/deps/shop-507999230d6984fa)

running 5 tests
test tests::later ... ignored
test tests::four ... ok
test tests::quiet - should panic ... FAILED
test tests::res ... FAILED
test tests::two ... FAILED

failures:

---- tests::quiet stdout ----
note: test did not panic as expected at src/lib.rs:26:8
---- tests::res stdout ----
Error: "no"

---- tests::two stdout ----

thread 'tests::two' (12931) panicked at /rustc/5980/library/core/src/x.rs:1:1:
thread 'tests::two' (12931) panicked at src/lib.rs:15:9:
assertion `left == right` failed: not five
test lies ... ok


failures:
    tests::two

test result: FAILED. 1 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out

error: test failed, to rerun pass `--lib`
     Running tests/old.rs (target/debug/deps/old-9bcfde99a7c554b8)

running 1 test
test m::two ... FAILED

failures:

---- m::two stdout ----
thread 'm::two' panicked at 'no, never', tests/old.rs:1:28

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out

     Running tests/dead.rs (target/debug/deps/dead-9bcfde99a7c554b8)

running 1 test
error: test failed, to rerun pass `--test dead`

Caused by:
  process didn't exit successfully: `/x/dead-9bcfde99a7c554b8` (signal: 6, SIGABRT)
   Doc-tests shop

running 1 test
test src/lib.rs - triple (line 5) ... FAILED

failures:

---- src/lib.rs - triple (line 5) stdout ----
Test executable failed (exit status: 101).

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out
"""
UNBUILT = b"""   Compiling shop v0.1.0 (/home/ada/shop)
src/lib.rs:1:5: warning: unused import: `std::fmt`
src/lib.rs:3:9: error[E0308]: mismatched types: expected `i32`, found `&str`
error: could not compile `shop` (lib) due to 1 previous error; 1 warning emitted
"""
