"""Added files that are taken in the place of a module of a language, or of its test tools."""

import pytest

from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.domain.ousting import may_oust, ousts

BASE = {"shop/__init__.py", "shop/a.py", "src/b.py", "lib/a.rb"}


def oust(path: str, *further: str, status: ChangeStatus = ChangeStatus.ADDED) -> bool:
    change = Change(path=path, status=status, mode="100644")
    return may_oust(change) and ousts(change, BASE, {path, *further})


@pytest.mark.parametrize(
    "path",
    ["json.py", "src/json.py", "src/argparse/__init__.py", "src/pytest.pyc", "src/_pytest/main.py",
     "src/inspect.cpython-311-x86_64-linux-gnu.so", "src/exceptiongroup.py", "new/json.py",
     "src/main/java/org/junit/jupiter/api/Assertions.java", "lib/minitest/autorun.rb",
     "lib/rspec/expectations.rb", "lib/Test/More.pm", "src/PHPUnit/Framework/Assert.php",
     "include/assert.h", "include/gtest/gtest.h", "third/doctest.h"],
)  # fmt: skip
def test_an_added_file_ousts_a_module_of_a_language_or_a_runner(path: str) -> None:
    assert oust(path)
    assert not oust(path, status=ChangeStatus.MODIFIED), "the base has one of its own"


@pytest.mark.parametrize(
    "path",
    ["shop/json.py", "shop/http/server.py", "shop/json/__init__.py", "src/shop.py", "src/json.txt",
     "src/org/shop/junit.java", "lib/shop.rb", "include/shop.h", "lib/Shop/Test.pm"],
)  # fmt: skip
def test_others_do_not(path: str) -> None:
    assert not oust(path)


def test_a_new_package_is_no_place_of_bare_names() -> None:
    assert not oust("fresh/types.py", "fresh/__init__.py")
    assert oust("src/types.py", "src/__init__.py"), "the base has files there, without a package"


def test_a_link_to_a_folder_is_a_module_by_its_bare_name() -> None:
    change = Change(path="src/json", status=ChangeStatus.ADDED, mode="120000")
    assert may_oust(change)
    assert ousts(change, BASE, {"src/json"})
