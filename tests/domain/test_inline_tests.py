"""Which lines of a source file belong to a test that stands beside the code."""

import pytest

from patchyard.domain.inline_tests import LONGEST, touches_inline

# Texts whose marked lines (behind `~`) belong to a test, and whose others do not.
FILES = {
    "a.py": [
        "def add(a, b):",
        '    """Add.',
        "~    >>> add(1, 2)",
        "~    3",
        "",
        '    And no more."""',
        "    return a + b",
        "~@pytest.mark.parametrize('n', [1])",
        "~def test_add(n):",
        "~    assert add(n, 2) == 3",
        "~",
        "~    assert n",
        "class Other:",
        "    def checked(self): ...",
        "~    async def test_it(",
        "~        self,",
        "~    ):",
        "~        pass",
        "    attribute = 1",
        "~class Cases(unittest.TestCase):",
        "~    x = 1",
    ],
    "one_quote.py": ['~    """>>> add(1, 2)', "~    3", '    """', "    return 1"],
    "a.rs": [
        "/// Adds.",
        "~/// ```",
        "~/// assert_eq!(add(1, 2), 3);",
        "~/// ```",
        "pub fn add(a: i32) -> i32 {",
        "    a",
        "}",
        "~#[cfg(test)]",
        "~mod more;",
        "pub fn other() {",
        "}",
        "~#[test] fn one() { assert!(true) }",
        "pub fn third() {}",
        "~#[cfg(test)]",
        "~mod tests {",
        "~    #[test]",
        "~    fn adds() {",
        "~        assert_eq!(add(1, 2), 3);",
        "~    }",
        "~}",
        "pub fn last() {}",
    ],
    "a.zig": ["fn f() {", "}", '~test "adds" {', "~    try expect(f());", "~}", "const x = 1;"],
    "a.ts": [
        "export const one = 1;",
        "~if (import.meta.vitest) {",
        "~  it('is one', () => {",
        "~    expect(one).toBe(1);",
        "~  });",
        "~}",
        "export const two = 2;",
        "~test('two', () => expect(two).toBe(2));",
        "export const three = 3;",
    ],
    "a.cpp": ["int add();", '~TEST_CASE("adds")', "~{", "~    CHECK(add() == 3);", "~}", "int x;"],
    "a.c": ["int add(void);", "~static void test_add(void) {", "~  assert(1);", "~}", "int x;"],
    "A.java": ["class A {", "~    @Test", "~    void adds() {", "~    }", "    int x;", "}"],
    "A.cs": ["class A {", "~    [Fact]", "~    void Adds()", "~    {", "~    }", "    int x;", "}"],
    "a.swift": ["let x = 1", "~func testAdds() {", "~    XCTAssert(true)", "~}", "let y = 1"],
    "a.rb": ["X = 1", "~it 'adds' do", "~  x", "~end", "Y = 2"],
    "a.ex": ["  @doc", "~      iex> 1 + 2", "~      3", "", "  def x do", "  end"],
    "a.hs": ["~-- >>> add 1 2", "~-- 3", "--", "add = (+)"],
    "a.clj": ["(def x 1)", "~(deftest adds", "~  (is (= 3 3)))", "(def y 1)"],
    "a.php": ["~#[Test]", "~function adds() {", "~}", "$x = 1;"],
    "a.kt": ["~@org.junit.Test", "~fun adds() {", "~}", "val x = 1"],
    "a.txt": ["def test_it():", "    pass"],
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_line_belongs_to_a_test_beside_the_code_or_not(name: str) -> None:
    lines = [line.removeprefix("~") for line in FILES[name]]
    found = [number for number in range(1, len(lines) + 1) if touches_inline(name, lines, {number})]
    assert found == [number for number, line in enumerate(FILES[name], 1) if line.startswith("~")]


@pytest.mark.parametrize("ending", [".py", ".rs", ".ts", ".c", ".swift", ".rb", ".cs"])
def test_long_lines_are_read_in_their_own_length(ending: str) -> None:
    for piece in ("{" * 40, "static ", "test ", "all(", "\"'", " ", "[a", ">"):
        lines = [piece * 200_000, "x"]
        assert not touches_inline(f"a{ending}", lines, {2})
    assert LONGEST < 200_000
