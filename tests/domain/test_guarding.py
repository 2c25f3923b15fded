"""Protected paths of a project block hand-over like the shipped ones."""

from patchyard.domain.changeset import Change, ChangeSet, ChangeStatus, FindingKind
from patchyard.domain.guarding import guarded
from patchyard.domain.links import TreeLinks


def test_a_changed_path_that_a_glob_names_becomes_a_blocking_finding() -> None:
    changes = (
        Change(path="db/1.sql", status=ChangeStatus.ADDED),
        Change(path="src/new.py", old_path="src/old.py", status=ChangeStatus.RENAMED),
        Change(path="free.txt", status=ChangeStatus.MODIFIED),
    )
    whole = ChangeSet(id="cs-1", base_tree="a", tree="b", changes=changes)
    found = guarded(whole, ("db/*", "src/old.py")).findings
    assert [finding.path for finding in found] == ["db/1.sql", "src/old.py"]
    assert {finding.kind for finding in found} == {FindingKind.PROTECTED_PATH}
    assert all(finding.blocks_apply for finding in found)
    assert guarded(whole, ()) is whole
    once = guarded(whole, ("db/*",))
    assert guarded(once, ("db/*",)) is once


def test_a_glob_holds_without_case_and_by_the_names_that_links_give() -> None:
    links = TreeLinks(before={"db": "store"}, after={"db": "store", "sql": "plain"})
    changes = (
        Change(path="store/v1.sql", status=ChangeStatus.MODIFIED),
        Change(path="DB/Old.sql", status=ChangeStatus.ADDED),
        Change(path="sql", status=ChangeStatus.ADDED, mode="120000"),
        Change(path="plain/x", status=ChangeStatus.MODIFIED),
        Change(path="free.txt", status=ChangeStatus.MODIFIED),
    )
    whole = ChangeSet(id="cs-1", base_tree="a", tree="b", changes=changes)
    found = guarded(whole, ("db/*", "sql/*"), links).findings
    assert [finding.path for finding in found] == ["DB/Old.sql", "plain/x", "sql", "store/v1.sql"]


def test_a_glob_holds_for_composed_and_decomposed_letters_alike() -> None:
    names = ("e\u0301tat/X", "\u00c9tat/y", "\u00c9TAT/sub/z", "etat/free")
    changes = tuple(Change(path=name, status=ChangeStatus.ADDED) for name in names)
    whole = ChangeSet(id="cs-1", base_tree="a", tree="b", changes=changes)
    found = guarded(whole, ("\u00e9tat/*",)).findings
    assert {finding.path for finding in found} == {*names[:3]}
