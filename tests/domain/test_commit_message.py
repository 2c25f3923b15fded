import pytest

from patchyard.domain.commit_message import commit_message


def test_a_message_is_the_tasks_first_line_and_the_summary() -> None:
    assert commit_message("\n Mend it \nand more", " It is mended.\n") == (
        "Mend it\n\nIt is mended.\n"
    )
    assert commit_message(" \n", "") == "change\n"
    assert commit_message("x" * 100, "") == f"{'x' * 69}...\n"


@pytest.mark.parametrize("char", ["\0", "\x1b", "\x07", "\x9b", "\r", "\u202e", "\ud800"])
def test_what_git_refuses_or_a_terminal_obeys_is_replaced(char: str) -> None:
    assert commit_message(f"a{char}b", f"c{char}d\te\r\nf") == "a\ufffdb\n\nc\ufffdd\te\nf\n"


def test_letters_of_all_languages_stay() -> None:
    said = "Größe, 長さ, \N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}"
    assert commit_message(said, said) == f"{said}\n\n{said}\n"
