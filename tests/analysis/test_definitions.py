"""What files define, by rules for their lines, and that no file makes these rules slow."""

import pytest

from patchyard.domain.definitions import (
    FILE_BYTES,
    MAPPED,
    RULES,
    definitions_in,
    is_readable,
    language_at,
    words_in,
)
from timing import require_linear

SOURCES = {
    "python": (
        """\
MAX_SIZE = 3
lower = 1


class Shop(Base):
    async def first_page(self):
        define = 1


def été():
    pass
""",
        ["1 const MAX_SIZE", "5 class Shop", "6 def first_page +", "10 def été"],
    ),
    "javascript": (
        """\
export default class Shop {
  static async firstPage(a, b) {
    if (a) {
    }
    other.call(() => {
    });
  }
}
export const total = (a) => {
  const inner = 1;
};
export async function pages(a) {
}
export interface Row {
}
export type Key = string;
""",
        [
            *("1 class Shop", "2 method firstPage +", "9 const total", "12 function pages"),
            *("14 interface Row", "16 type Key"),
        ],
    ),
    "go": (
        """\
type Shop struct {
}

func (s *Shop) Pages(n int) error {
	func() {
	}()
}
func New() *Shop {
""",
        ["1 type Shop", "4 func Pages", "8 func New"],
    ),
    "rust": (
        """\
pub(crate) struct Shop;
impl Shop {
    pub async fn pages(&self) {}
}
extern "C" fn raw() {}
macro_rules! shop {
""",
        ["1 struct Shop", "3 fn pages +", "5 fn raw", "6 macro_rules! shop"],
    ),
    "java": (
        """\
public final class Shop {
  @Override
  public List<Page> pages(int n) throws Gone {
    for (int i = 0; i < n; i++) {
    }
    them.each(new Visitor() {
    });
  }
}
""",
        ["1 class Shop", "3 method pages +"],
    ),
    "c": (
        """\
#define SHOP_MAX 3
struct shop {
};
static int *pages(int n)
{
  if (n) {
  }
}
int Shop::total(void) {
  return other(n);
}
""",
        ["1 #define SHOP_MAX", "2 struct shop", "4 function pages", "9 function total"],
    ),
}


@pytest.mark.parametrize("language", RULES)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_each_language_has_its_definitions_with_their_lines(language: str, ends: str) -> None:
    text, wanted = SOURCES[language]
    found = definitions_in(text.replace("\n", ends).encode(), language)
    told = [f"{each.line} {each.kind} {each.name}{' +' * each.is_inner}" for each in found]
    assert told == wanted


def test_every_language_of_an_ending_has_rules_and_others_have_none() -> None:
    assert set(MAPPED.values()) == set(RULES)
    assert (language_at("a/B.PY"), language_at("Makefile"), language_at("go")) == ("python", "", "")
    assert definitions_in(b"def a", "") == []


HOSTILE = {
    "one long line of a keyword": b"def " * 120_000,
    "keywords without names": b"class (\n" * 60_000,
    "blanks before a keyword": b" " * 200_000 + b"def f():\n" + b"\t" * 200_000,
    "braces": b"{\n" * 200_000,
    "braces after one long line": b"a" * 400_000 + b"(" + b"{\n" * 10_000,
    "modifiers": b"public static " * 30_000 + b"{\n",
    "angles": b"template <" * 40_000,
    "parentheses": b"func (" * 60_000 + b"\n" + b"  x(" * 60_000 + b" {\n",
    "no end of a line": b"const x = " * 50_000,
    "capitals": b"\n" + b"A" * 400_000 + b"\nAB  " * 10_000,
    "noise": bytes(range(1, 256)) * 1_900,
    "crossed ends": b"\r\n\r" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_file_is_read_in_more_than_linear_time(name: str) -> None:
    data = HOSTILE[name]

    def read(size: int) -> None:
        for language in RULES:
            definitions_in(data[:size], language)
        words_in(data[:size])

    require_linear(read, len(data))


def test_what_nobody_has_written_is_not_read() -> None:
    assert is_readable(b"x = 1\n" * 5000)
    assert not is_readable(b"x = 1\n\0")
    assert not is_readable(b"var a;" * 5000)  # on one line
    assert not is_readable(b"x\n" * FILE_BYTES)


def test_a_word_counts_wherever_it_stands() -> None:
    assert words_in(b'# see first_page\nx.y("Shop-2")\n') == {
        *(b"see", b"first_page", b"x", b"y", b"Shop", b"2"),
    }
