"""The language of a repository by four tiers, and the image that it means."""

from collections.abc import Collection

import pytest

from patchyard.domain.languages import IMAGES, Spoken, image_for, language_of

Tree = dict[str, Collection[str]]


def spoken(tree: Tree) -> Spoken:
    return language_of(list(tree), lambda folder: [f"{folder}/{name}" for name in tree[folder]])


@pytest.mark.parametrize(
    ("tree", "language", "because"),
    [
        ({"package.json": (), "pyproject.toml": ()}, "python", "pyproject.toml"),
        ({"Cargo.toml": (), "x.py": (), "y.py": ()}, "rust", "Cargo.toml"),
        ({".nvmrc": (), "server": ("go.mod",)}, "javascript", ".nvmrc"),
        (
            {"server": ("go.mod", "a.py"), "web": ("package.json",)},
            "javascript",
            "web/package.json",
        ),
        ({"src": ("a.c", "b.c", "c.h", "x.py"), "README": ()}, "c", "src/a.c"),
        ({"a.py": (), "b.go": ()}, "go", "b.go"),
        ({"README": (), ".hidden": ("a.py",)}, "", ""),
        ({}, "", ""),
    ],
)
def test_the_surest_of_four_tiers_says_the_language(
    tree: Tree, language: str, because: str
) -> None:
    assert spoken(tree) == Spoken(language=language, because=because)


def test_settings_name_other_images_and_every_language_has_one() -> None:
    go = Spoken(language="go", because="go.mod")
    assert image_for(go, {}) == "golang:1"
    assert image_for(go, {"go": "house/go:2", "base": "house/base"}) == "house/go:2"
    assert image_for(Spoken(), {"base": "house/base"}) == "house/base"
    assert image_for(Spoken(), {}) == IMAGES[""]
