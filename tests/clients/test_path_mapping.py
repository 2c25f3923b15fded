"""One workspace under two paths: only whole paths of it are translated, and both ways back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.clients.path_mapping import PathMapping

APART = PathMapping(here="/src/shop", there="/home/me/.cache/srv")
INNER = PathMapping(here="/home/me", there="/home/me/.cache/srv")
OUTER = PathMapping(here="/home/me/.cache/srv", there="/home/me")


@pytest.mark.parametrize(
    ("mapping", "said", "meant"),
    [
        (APART, "cd /src/shop && make", "cd /home/me/.cache/srv && make"),
        (APART, "ls /src/shop/a /src/shop2", "ls /home/me/.cache/srv/a /src/shop2"),
        (APART, "x=/mnt/src/shop", "x=/mnt/src/shop"),
        (APART, "PATH=/bin:/src/shop/bin", "PATH=/bin:/home/me/.cache/srv/bin"),
        (APART, "see file:///src/shop/a.", "see file:///home/me/.cache/srv/a."),
        (APART, "in /src/shop.", "in /home/me/.cache/srv."),
        (APART, "in /src/shop.old and /src/shop-1", "in /src/shop.old and /src/shop-1"),
        (APART, "'/src/shop'\"/src/shop\"", "'/home/me/.cache/srv'\"/home/me/.cache/srv\""),
        (
            INNER,
            "/home/me/a /home/me/.cache/srv/b",
            "/home/me/.cache/srv/a /home/me/.cache/srv/b",
        ),
        (OUTER, "/home/me/.cache/srv/a /home/me/b", "/home/me/a /home/me/b"),
    ],
)
def test_a_text_has_its_whole_paths_translated(mapping: PathMapping, said: str, meant: str) -> None:
    assert mapping.text_inward(said) == meant


@pytest.mark.parametrize(
    ("mapping", "path", "there"),
    [
        (APART, "/src/shop", "/home/me/.cache/srv"),
        (APART, "/src/shop/a/../b", "/home/me/.cache/srv/a/../b"),
        (APART, "/src/shop/../b", "/home/me/.cache/srv/../b"),
        (APART, "a/b", "a/b"),
        (APART, "/src/shopping", "/src/shopping"),
        (APART, "/etc/passwd", "/etc/passwd"),
        (INNER, "/home/me/.cache/srv/a", "/home/me/.cache/srv/a"),
        (INNER, "/home/me/a", "/home/me/.cache/srv/a"),
        (OUTER, "/home/me/.cache/srv/a", "/home/me/a"),
    ],
)
def test_a_path_below_the_workspace_is_translated(
    mapping: PathMapping, path: str, there: str
) -> None:
    assert mapping.inward(path) == there


@given(st.lists(st.sampled_from(["a", "b.c", "..", "-x", "\n", "\udcff"]), max_size=4))
def test_what_went_there_comes_back_as_it_was(parts: list[str]) -> None:
    path = "/".join(["/src/shop", *parts])
    assert APART.outward(APART.inward(path)) == path


def test_of_a_call_only_paths_and_texts_about_them_are_translated() -> None:
    args = {
        "path": "/src/shop/a",
        "cwd": "/src/shop",
        "command": "cat /src/shop/a",
        "env": {"HERE": "/src/shop", "N": 1},
        "content": "of /src/shop",
        "session": None,
    }
    there = "/home/me/.cache/srv"
    assert APART.arguments(args) == {
        "path": f"{there}/a",
        "cwd": there,
        "command": f"cat {there}/a",
        "env": {"HERE": there, "N": 1},
        "content": "of /src/shop",
        "session": None,
    }
    assert APART.arguments({"path": 7, "env": None}) == {"path": 7, "env": None}
    result = {
        "message": f"no {there}/a",
        "stdout": f"{there}\n",
        "paths": [f"{there}/a", 4],
        "near": None,
        "content": there,
        "exit_code": 0,
    }
    assert APART.result(result) == {
        "message": "no /src/shop/a",
        "stdout": "/src/shop\n",
        "paths": ["/src/shop/a", 4],
        "near": None,
        "content": there,
        "exit_code": 0,
    }
