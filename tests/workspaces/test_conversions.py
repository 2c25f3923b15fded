import hashlib
import os
from collections.abc import Sequence

import pytest

from handovers import with_large_files
from laboratory import Lab, bytes_below, git
from patchyard.contracts.handover import Order
from patchyard.contracts.trees import whole
from patchyard.domain.changeset import Base
from patchyard.domain.errors import StateRefusal
from patchyard.workspaces.handover import GitHandOver

pytestmark = pytest.mark.anyio

CRLF = b"one\r\ntwo\r\nthree\r\nfour\r\nfive\r\n"


def order(to: str, allow: Sequence[str] = ()) -> Order:
    return Order(to=to, name="patchyard/p1", message="m\n", allow_paths=tuple(allow))


async def with_endings(lab: Lab) -> Base:
    lab.write({".gitattributes": "*.txt text eol=crlf\n*.u16 working-tree-encoding=UTF-16LE\n"})
    lab.write({"a.txt": CRLF, "b.txt": "x\r\n", "c": "lf\n"})
    lab.write({"w.u16": "wide\n".encode("utf-16-le")})
    lab.commit()
    assert git(lab.repo, "show", "HEAD:a.txt") == "one\ntwo\nthree\nfour\nfive\n"
    return await lab.base()


async def test_the_base_holds_the_bytes_of_the_checkout_and_knows_both_forms(copying: Lab) -> None:
    base = await with_endings(copying)

    seen = bytes_below(await copying.trees.checkout(base))

    assert seen == bytes_below(copying.repo)
    assert set(base.filtered) == {"a.txt", "b.txt", "w.u16"}
    pair = base.filtered["a.txt"]
    assert pair.normalised == git(copying.repo, "rev-parse", "HEAD:a.txt").strip()
    assert await copying.trees.blob(base, pair.raw) == CRLF
    assert base.uncommitted == 0


async def test_dirty_and_new_files_get_their_committed_form(copying: Lab) -> None:
    await with_endings(copying)
    copying.write({"a.txt": CRLF + b"six\r\n", "new.txt": "n\r\n"})

    base = await copying.base()

    assert base.uncommitted == 2
    normalised = base.filtered["new.txt"].normalised
    assert await copying.trees.blob(base, normalised) == b"n\n"


async def test_line_endings_survive_worktree_branch_and_merge(copying: Lab) -> None:
    base = await with_endings(copying)
    edited = CRLF.replace(b"one", b"ONE")
    changeset = await copying.changed(base, {"a.txt": edited, "n.txt": "new\r\n"})
    patch = await whole(copying.trees.diff(base, changeset))

    await copying.apply(base, changeset, order("branch"))
    assert git(copying.repo, "show", "patchyard/p1:a.txt") == "ONE\ntwo\nthree\nfour\nfive\n"
    assert git(copying.repo, "show", "patchyard/p1:n.txt") == "new\n"

    receipt = await copying.apply(base, changeset, order("worktree"))
    assert (copying.repo / "a.txt").read_bytes() == edited
    assert (copying.repo / "n.txt").read_bytes() == b"new\r\n"
    await GitHandOver(copying.trees).take_back(base, changeset, receipt)
    assert (copying.repo / "a.txt").read_bytes() == CRLF

    receipt = await copying.apply(base, changeset, order("merge"))
    assert (copying.repo / "a.txt").read_bytes() == edited
    assert git(copying.repo, "status", "--porcelain") == ""
    await GitHandOver(copying.trees).take_back(base, changeset, receipt)

    git(copying.repo, "apply", "--binary", "-", stdin=patch)
    assert (copying.repo / "a.txt").read_bytes() == edited


async def test_a_plan_from_a_commit_merges_into_a_converted_checkout(copying: Lab) -> None:
    await with_endings(copying)
    base = await copying.base("head")
    assert base.filtered == {}
    edits: dict[str, str | bytes | None] = {"a.txt": "ONE\ntwo\nthree\nfour\nfive\n"}
    changeset = await copying.changed(base, edits)
    copying.write({"a.txt": CRLF.replace(b"five", b"FIVE")})

    await copying.apply(base, changeset, order("worktree"))

    expected = CRLF.replace(b"five", b"FIVE").replace(b"one", b"ONE")
    assert (copying.repo / "a.txt").read_bytes() == expected


async def test_autocrlf_is_honoured_without_attributes(copying: Lab) -> None:
    git(copying.repo, "config", "core.autocrlf", "true")
    copying.write({"a": "x\r\ny\r\n"})
    copying.commit()
    assert git(copying.repo, "show", "HEAD:a") == "x\ny\n"

    base = await copying.base()
    changeset = await copying.changed(base, {"a": "x\r\nz\r\n"})
    await copying.apply(base, changeset, order("branch"))

    assert base.conversions == {"core.autocrlf": "true"}
    assert git(copying.repo, "show", "patchyard/p1:a") == "x\nz\n"
    assert base.uncommitted == 0


async def test_large_file_content_is_seen_and_committed_as_a_pointer(copying: Lab) -> None:
    content = with_large_files(copying)

    base = await copying.base()
    changeset = await copying.changed(base, {"x.bin": b"new", "y.bin": b"other", "a": "b\n"})
    assert bytes_below(await copying.trees.checkout(base))["x.bin"] == ("-", content)
    assert base.uncommitted == 0

    await copying.apply(base, changeset, order("branch"))

    shown = git(copying.repo, "show", "patchyard/p1:x.bin")
    digest = hashlib.sha256(b"new").hexdigest()
    assert shown.endswith(f"oid sha256:{digest}\nsize 3\n")
    kept = copying.repo / ".git/lfs/objects" / digest[:2] / digest[2:4] / digest
    assert kept.read_bytes() == b"new"


async def test_pointers_without_lfs_are_plain_files(copying: Lab) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n"
    copying.write({".gitattributes": "*.bin filter=lfs -text\n", "x.bin": pointer})
    copying.commit()

    base = await copying.base()

    assert base.filtered == {}
    assert bytes_below(await copying.trees.checkout(base))["x.bin"] == ("-", pointer.encode())


async def test_a_filter_of_the_users_is_left_to_the_users_git(copying: Lab) -> None:
    copying.write({".gitattributes": "*.s filter=secret\n", "a.s": "plain\n", "b": "b\n"})
    git(copying.repo, "config", "filter.secret.clean", "tr a-z A-Z")
    copying.commit()
    base = await copying.base()
    assert set(base.filtered) == {"a.s"}
    changeset = await copying.changed(base, {"a.s": "other\n"})

    with pytest.raises(StateRefusal, match="secret"):
        await copying.apply(base, changeset, order("branch"))
    await copying.apply(base, changeset, order("worktree"))

    assert (copying.repo / "a.s").read_bytes() == b"other\n"
    harmless = await copying.changed(base, {"b": "c\n"})
    await copying.apply(base, harmless, order("branch"))
    assert git(copying.repo, "show", "patchyard/p1:a.s") == "PLAIN\n"


async def test_files_that_are_the_same_in_both_forms_are_no_pairs(copying: Lab) -> None:
    copying.write({".gitattributes": "* text=auto\n*.u16 working-tree-encoding=UTF-16LE\n"})
    copying.write({"a.txt": "lf\n", "gone.txt": "g\n"})
    (copying.repo / "ln.txt").symlink_to("a.txt")
    copying.commit()
    (copying.repo / "gone.txt").unlink()
    (copying.repo / "a.txt").touch()
    copying.write({"new.txt": "n\n"})

    base = await copying.base()

    assert base.filtered == {}
    assert base.uncommitted == 2


async def test_rules_of_the_repository_alone_convert_as_well(copying: Lab) -> None:
    attributes = copying.repo / ".git/info/attributes"
    attributes.write_text("*.txt text eol=crlf\n")
    copying.write({"a.txt": CRLF})
    copying.commit()
    base = await copying.base()
    changeset = await copying.changed(base, {"a.txt": CRLF.replace(b"one", b"ONE")})

    await copying.apply(base, changeset, order("branch"))

    assert git(copying.repo, "show", "patchyard/p1:a.txt") == "ONE\ntwo\nthree\nfour\nfive\n"


async def test_a_pointer_in_place_of_its_large_content_is_itself(copying: Lab) -> None:
    git(copying.repo, "config", "filter.lfs.clean", "cat")
    pointer = (
        "version https://git-lfs.github.com/spec/v1\n"
        f"oid sha256:{hashlib.sha256(b'large').hexdigest()}\nsize 5\n"
    )
    copying.write({".gitattributes": "*.bin filter=lfs\n", "a.bin": pointer, "b": "b\n"})
    copying.commit()
    copying.write({"a.bin": pointer.replace("size 5", "size 6")})
    assert (await copying.base()).filtered == {}
    copying.commit()

    base = await copying.base()
    changeset = await copying.changed(base, {"a.bin": pointer.replace("size 5", "size 7")})
    await copying.apply(base, changeset, order("branch"))

    assert base.filtered == {}
    assert "size 7" in git(copying.repo, "show", "patchyard/p1:a.bin")


async def test_a_plan_from_a_commit_leaves_a_filtered_path_to_the_user(copying: Lab) -> None:
    copying.write({"a.sec": "clear\n"})
    copying.commit()
    git(copying.repo, "config", "filter.own.clean", "rev")
    git(copying.repo, "config", "filter.own.smudge", "rev")
    copying.write({".gitattributes": "*.sec filter=own\n"})
    os.utime(copying.repo / "a.sec", (1, 1))  # so that git reads it again, by the filter
    copying.commit()
    base = await copying.base("head")
    changeset = await copying.changed(base, {"a.sec": "other\n"})

    with pytest.raises(StateRefusal, match="filter 'own'"):
        await copying.apply(base, changeset, order("worktree"))

    assert (copying.repo / "a.sec").read_text() == "clear\n"
