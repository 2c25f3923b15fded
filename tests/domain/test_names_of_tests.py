"""Names whose words say that they are of tests."""

import pytest

from patchyard.domain.names_of_tests import is_of_tests


@pytest.mark.parametrize(
    "path",
    ["Shop.Tests/PriceChecks.cs", "ShopTests/PriceChecks.swift", "src/PriceTest.kt",
     "a/PriceSpec.scala",
     "src/androidTest/kotlin/A.kt", "src/price_unittest.cc", "test-utils/render.tsx",
     "e2e/login.ts",
     "web/login.e2e.ts", "web/login.cy.ts", "cypress/support/commands.ts", "src/calc/test.rs",
     "unit_tests/a.js", "integration-tests/a.rs", "internal/testutil/a.go", "src/TestPrice.java",
     "test_price.c", "shop/testing/asserts.go", "unittests/a.cpp"],
)  # fmt: skip
def test_a_name_of_tests(path: str) -> None:
    assert is_of_tests(path)


@pytest.mark.parametrize(
    "path",
    ["latest/a.py", "testkit/core/a.py", "contests/a.go", "src/attest.rs", "src/fastest.c",
     "spec.py", "test_harness/app/main.rs",
     "src/Testimony.java", "src/PodSpec.go", "src/protest/a.cs", "docs/testing.md",
     "api/openapi-spec.ts",
     "src/testimonials.tsx", "src/greatest.js"],
)  # fmt: skip
def test_a_name_that_only_holds_these_letters(path: str) -> None:
    assert not is_of_tests(path)


@pytest.mark.parametrize("piece", ["test", "-", "_", ".", "Tests", "a", "unit"])
def test_a_long_name_is_read_in_its_own_length(piece: str) -> None:
    assert is_of_tests(f"{piece * 1000}/tests/a.c")
    is_of_tests(piece * 1000)
