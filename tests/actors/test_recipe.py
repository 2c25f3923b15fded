"""The recipe actors: declared steps, carried out without a model (B1, B3)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from actors.hands import READING, Hands, begun, carried_out, recipe
from patchyard.contracts.actor import Turn
from patchyard.domain.errors import GuardRefused, ProofFailed, UsageError

pytestmark = pytest.mark.anyio

PATCH = """--- a/greeting.txt
+++ b/greeting.txt
@@ -1 +1 @@
-hello
+good day {name}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "greeting.txt").write_text("hello\n")
    (tmp_path / "src" / "a.py").write_text("x = 1\ny = 1\n")
    (tmp_path / "src" / "b.py").write_text("z = 2\n")
    return tmp_path


def contents(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


async def last(root: Path, *steps: Mapping[str, Any], **arguments: str) -> Turn:
    lived = await carried_out(recipe(*steps, arguments=arguments), Hands(root))
    return lived[-1][0]


async def test_a_command_gets_its_arguments_as_single_words(root: Path) -> None:
    nasty = 'a\'; touch pwned; echo "$(touch pwned)" `touch pwned` \\ {other}'
    step = {"run": """printf '%s|%s|%s' {text} "{text}" 'in {text}' > out"""}
    turn = await last(root, step, text=nasty)
    assert turn.failure == ""
    assert (root / "out").read_text() == f"{nasty}|{nasty}|in {nasty}"
    assert not (root / "pwned").exists()


async def test_a_failing_command_ends_the_work_with_code_and_output(root: Path) -> None:
    turn = await last(root, {"run": "echo broken >&2; exit 3"}, {"run": "touch later"})
    assert turn.is_final
    assert "steps[0]" in turn.failure
    assert "ended with 3" in turn.failure
    assert "broken" in turn.failure
    assert not (root / "later").exists()


async def test_on_error_continue_goes_on_and_says_so(root: Path) -> None:
    turn = await last(root, {"run": "exit 3", "on_error": "continue"}, {"run": "touch later"})
    assert not turn.failure
    assert "went on although" in turn.summary
    assert (root / "later").exists()


async def test_a_command_runs_in_the_folder_it_names(root: Path) -> None:
    await last(root, {"run": {"command": "ls > listed", "cwd": "{dir}"}}, dir="src")
    assert "a.py" in (root / "src" / "listed").read_text()


async def test_replace_uses_groups_in_every_matching_file(root: Path) -> None:
    step = {"replace": {"files": "**/*.py", "pattern": r"^(\w) = 1$", "with": r"\1 = 10"}}
    turn = await last(root, step)
    assert (root / "src" / "a.py").read_text() == "x = 10\ny = 10\n"
    assert (root / "src" / "b.py").read_text() == "z = 2\n"
    assert "replaced 2 in 1 of 2 files" in turn.summary


async def test_arguments_are_literal_in_patterns_and_replacements(root: Path) -> None:
    (root / "req.txt").write_text("a.b==1\naxb==1\n")
    change = {"files": "req.txt", "pattern": "^{name}==.*$", "with": "{name}=={version}"}
    await last(root, {"replace": change}, name="a.b", version=r"\1{name}")
    assert (root / "req.txt").read_text() == "a.b==\\1{name}\naxb==1\n"


async def test_replace_keeps_line_ends_and_bytes_that_are_no_text(root: Path) -> None:
    (root / "crlf.ini").write_bytes(b"a=1\r\nb=\xff\r\n")
    await last(root, {"replace": {"files": "*.ini", "pattern": "^(.)=1$", "with": r"\1=2\nc=3"}})
    assert (root / "crlf.ini").read_bytes() == b"a=2\r\nc=3\r\nb=\xff\r\n"


async def test_replace_reads_long_files_whole_and_leaves_binary_ones(root: Path) -> None:
    (root / "long.log").write_text("".join(f"line {n}\n" for n in range(2500)))
    (root / "bin.log").write_bytes(b"line 2499\0")
    await last(root, {"replace": {"files": "*.log", "pattern": "^line 2499$", "with": "end"}})
    assert (root / "long.log").read_text().endswith("line 2498\nend\n")
    assert (root / "bin.log").read_bytes() == b"line 2499\0"


async def test_replace_finds_more_files_than_one_search_shows(root: Path) -> None:
    for number in range(30):
        (root / f"d{number % 3}").mkdir(exist_ok=True)
        (root / f"d{number % 3}" / f"{number}.md").write_text("old\n")
    (root / "node_modules").mkdir()
    (root / "node_modules" / "x.md").write_text("old\n")
    hands = Hands(root, cap=10)
    step = {"replace": {"files": "**/*.md", "pattern": "old", "with": "new"}}
    await carried_out(recipe(step), hands)
    assert "list_directory" in hands.names()
    found = contents(root)
    assert found.pop("node_modules/x.md") == b"old\n"
    assert {found[path] for path in found if path.endswith(".md")} == {b"new\n"}


async def test_a_required_replacement_without_a_match_fails(root: Path) -> None:
    step = {"replace": {"files": "*.txt", "pattern": "absent", "with": "", "required": True}}
    turn = await last(root, step)
    assert "matches nothing" in turn.failure


async def test_a_pattern_that_never_ends_is_a_failure_and_not_a_hang(root: Path) -> None:
    (root / "trap.txt").write_text("a" * 40 + "\n")
    step = {"replace": {"files": "trap.txt", "pattern": "(a+)+$x", "with": ""}}
    session = await begun(recipe(step))
    session._substituter._deadline_s = 0.2
    hands = Hands(root)
    turn = await session.next(())
    while not turn.is_final:
        turn = await session.next([hands.answer(wanted) for wanted in turn.calls])
    await session.close()
    assert "took longer than" in turn.failure


async def test_write_file_and_patch(root: Path) -> None:
    turn = await last(
        root,
        {"write_file": {"path": "docs/{name}.md", "content": "# {name} {{name}}\n"}},
        {"patch": PATCH},
        name="x",
    )
    assert not turn.failure
    assert (root / "docs" / "x.md").read_text() == "# x {name}\n"
    assert (root / "greeting.txt").read_text() == "good day {name}\n"
    assert not [path for path in contents(root) if path.startswith(".patchyard-")]


async def test_a_patch_that_does_not_apply_leaves_nothing_behind(root: Path) -> None:
    turn = await last(root, {"patch": PATCH.replace("-hello", "-goodbye")})
    assert "does not apply" in turn.failure
    assert not [path for path in contents(root) if path.startswith(".patchyard-")]


async def test_for_each_carries_out_nested_steps_on_each_file(root: Path) -> None:
    (root / "src" / "it's [odd].py").write_text("w = 1\n")
    inner = [
        {"run": "echo {file} >> seen"},
        {"replace": {"pattern": "= 1", "with": "= 5"}},
    ]
    turn = await last(root, {"for_each": {"files": "src/*.py", "steps": inner}})
    assert not turn.failure
    seen = (root / "seen").read_text().splitlines()
    assert seen == ["src/a.py", "src/b.py", "src/it's [odd].py"]
    assert (root / "src" / "it's [odd].py").read_text() == "w = 5\n"


@pytest.mark.parametrize(("code", "made"), [(0, "then"), (7, "then"), (1, "else")])
async def test_when_chooses_by_exit_code(root: Path, code: int, made: str) -> None:
    step = {
        "when": {
            "run": f"exit {code}",
            "exit_code": [0, 7],
            "then": [{"run": "touch then"}],
            "else": [{"run": "touch else"}],
        }
    }
    await last(root, step)
    assert {"then", "else"} & set(contents(root)) == {made}


async def test_fail_ends_with_its_message(root: Path) -> None:
    turn = await last(root, {"fail": "not for {name}"}, name="x")
    assert turn.failure == "steps[0]: not for x"


async def test_strategize_reads_only_and_proposes_each_step(root: Path) -> None:
    before = contents(root)
    hands = Hands(root)
    brief = recipe(
        {"replace": {"files": "**/*.py", "pattern": "1", "with": "2"}},
        {"when": {"run": "make", "then": [{"run": "make more"}], "else": [{"fail": "no"}]}},
        {"for_each": {"files": "*.txt", "steps": [{"run": "wc {file}"}]}},
        {"write_file": {"path": "n", "content": "c"}},
        {"patch": PATCH},
        phase="strategize",
    )
    final = (await carried_out(brief, hands))[-1][0]
    assert set(hands.names()) <= READING
    assert contents(root) == before
    assert len(final.proposals) == 5
    assert "src/a.py, src/b.py" in final.proposals[0].rationale
    assert final.proposals[1].alternatives == ("on 0: run `make more`", "else: end with: no")
    assert "greeting.txt" in final.proposals[4].choice


async def test_a_session_goes_on_where_another_was_cut_off(root: Path) -> None:
    brief = recipe(
        {"run": "echo one >> log"},
        {"replace": {"files": "src/*.py", "pattern": r"\d", "with": "7"}},
        {"run": "echo two >> log"},
    )
    whole = await carried_out(brief, Hands(root))
    assert len(whole) > 3
    for cut in range(len(whole)):
        hands = Hands(root)
        again = await carried_out(brief, hands, restored=whole[:cut])
        assert [turn.calls for turn, _ in again][:cut] == [turn.calls for turn, _ in whole][:cut]
        assert again[-1][0].is_final
        done = sum(len(turn.calls) for turn, _ in whole[:cut])
        assert len(hands.calls) <= sum(len(turn.calls) for turn, _ in whole) - done


async def test_a_recorded_step_that_leads_elsewhere_is_refused(root: Path) -> None:
    whole = await carried_out(recipe({"run": "true"}), Hands(root))
    with pytest.raises(GuardRefused, match="another way"):
        await carried_out(recipe({"run": "false"}), Hands(root), restored=whole)


async def test_a_failed_proof_cannot_be_mended_by_a_recipe() -> None:
    session = await begun(recipe({"fail": "at once"}))
    assert (await session.next(())).is_final
    with pytest.raises(ProofFailed):
        await session.next((), note="the tests fail")
    await session.close()


async def test_a_plan_without_steps_is_refused_with_the_cure() -> None:
    with pytest.raises(UsageError) as caught:
        await begun(recipe())
    assert "--agent model" in caught.value.hint
