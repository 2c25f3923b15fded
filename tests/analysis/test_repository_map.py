"""The map: what is used most and what the task speaks of come first, within the budget."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.analysis import Symbol
from patchyard.domain.definitions import definitions_in, language_at, words_in
from patchyard.domain.repository_map import (
    CHARACTERS_PER_TOKEN,
    Counts,
    MappedFile,
    SymbolTable,
    chosen,
    files_of,
    fitting,
    is_mapped,
    rows_of,
    sought_in,
    table_of,
)

SOURCES = {
    "core.py": "class Engine:\n    def run(self): ...\n    def __init__(self): ...\n\n\n"
    "def load_engine(): ...\ndef _hidden_part(): ...\ndef data(): ...\n",
    "one.py": "from core import Engine, load_engine, data, run\n",
    "two.py": "from core import Engine, data, run\n",
    "three.py": "import core\ncore.Engine; core.data; core._hidden_part; run\n",
    "rare.py": "def spare_wheel(): ...\nclass SpareTyre: ...\n",
    "tests/test_core.py": "def helper_of_tests(): ...\nEngine\n",
    "four.go": "// Engine is another language's\nfunc Spin() {\n",
}


def table(sources: dict[str, str]) -> SymbolTable:
    files, counts = [], dict[str, Counter[bytes]]()
    for path, text in sorted(sources.items()):
        language, data = language_at(path), text.encode()
        found = rows_of(definitions_in(data, language))
        files.append(MappedFile(path=path, rows=found))
        counts.setdefault(language, Counter()).update(words_in(data))
    return table_of(files, counts)


def names(task: str, tokens: int = 1000, sources: dict[str, str] = SOURCES) -> list[str]:
    return [each.name for each in chosen(table(sources), sought_in(task), tokens)]


def test_what_most_other_files_use_comes_first() -> None:
    found = names("")
    assert found[0] == "Engine"
    assert found.index("load_engine") < found.index("data")  # used less, and says more
    assert found.index("Engine") < found.index("_hidden_part")
    assert "__init__" not in found


def test_what_the_task_names_comes_first_and_what_has_its_words_next() -> None:
    assert names("SpareTyre is flat")[0] == "SpareTyre"
    assert names("change the wheel")[0] == "spare_wheel"
    assert set(names("both in rare.py: do them")[:2]) != {"spare_wheel", "SpareTyre"}
    paths = sought_in("both in rare.py", ["rare.py"])
    assert {each.path for each in chosen(table(SOURCES), paths, 1000)[:2]} == {"rare.py"}


@pytest.mark.parametrize("tokens", [1, 10, 25, 40, 1000])
def test_the_map_keeps_to_its_budget(tokens: int) -> None:
    symbols = chosen(table(SOURCES), sought_in("wheel"), tokens)
    text = fitting(symbols, tokens * CHARACTERS_PER_TOKEN)
    assert len(text) <= tokens * CHARACTERS_PER_TOKEN
    assert len(text.splitlines()) == len(symbols) + len({each.path for each in symbols})
    assert fitting(symbols, 0) == ""


def test_it_is_drawn_by_file_and_line() -> None:
    symbols = [
        Symbol(path="b.py", line=9, kind="def", name="last"),
        Symbol(path="a.py", line=1, kind="class", name="A"),
        Symbol(path="b.py", line=2, kind="def", name="first"),
    ]
    assert fitting(symbols, 500) == "b.py\n  2 def first\n  9 def last\na.py\n  1 class A"


def test_files_of_others_and_made_ones_are_not_in_it() -> None:
    others = ("node_modules/x/a.js", "a/vendor/b.go", "a.min.js", "x_pb2.py", "README.md")
    assert not any(map(is_mapped, others))
    assert is_mapped("src/vendors.py")


def test_an_empty_repository_has_an_empty_map() -> None:
    assert chosen(table_of([], {}), sought_in("Engine"), 1000) == []


NAMES = st.sampled_from(["Engine", "load_engine", "run", "\u2028odd", "spare_wheel", "MAX_SIZE"])


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(NAMES, max_size=6), max_size=6))
def test_a_table_holds_all_that_it_was_made_of(defined: dict[str, list[str]]) -> None:
    sources = {
        f"{stem}.py": "".join(f"def {name}(): {stem}\n" for name in own)
        for stem, own in defined.items()
    }
    made = table(sources)
    counts: Counts = {
        "python": Counter(w for text in sources.values() for w in words_in(text.encode()))
    }
    assert table_of(files_of(made), counts) == made


def test_the_words_that_all_names_hold_weigh_less_than_rare_ones() -> None:
    sources = {f"m{n}.py": f"def plan_{n}(): ...\nplan_{n + 1}\n" for n in range(200)}
    sources["w.py"] = "def wheel_nut(): ...\n"
    assert names("a plan for the wheel", 400, sources)[0] == "wheel_nut"
