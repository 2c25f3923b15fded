import errno
import subprocess
from pathlib import Path

import pytest

from patchyard.clients import cgroups
from patchyard.domain.environment import Limits

LIMITS = Limits(memory_bytes=1024**3, processes=77)


def test_version_1_gets_a_group_for_each_controller(tmp_path: Path) -> None:
    for name in ("memory/own", "pids", "freezer"):
        (tmp_path / name).mkdir(parents=True)
    group = cgroups.make_group(
        "one",
        LIMITS,
        membership="3:cpu:/\n2:memory:/own\n1:pids,freezer:/\n0::/\n",
        filesystem=tmp_path,
    )
    assert set(group) == {str(tmp_path / n) for n in ("memory/own/one", "pids/one", "freezer/one")}
    assert (tmp_path / "memory/own/one/memory.limit_in_bytes").read_text() == str(1024**3)
    assert (tmp_path / "pids/one/pids.max").read_text() == "77"


def test_version_1_has_no_group_that_refuses_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("memory", "pids"):
        (tmp_path / name).mkdir()
    write = Path.write_text

    def refusing(file: Path, text: str) -> int:
        if file.name == "memory.limit_in_bytes":
            raise OSError(errno.EINVAL, "Invalid argument")
        return write(file, text)

    monkeypatch.setattr(Path, "write_text", refusing)
    group = cgroups.make_group(
        "one", LIMITS, membership="2:memory:/\n1:pids:/\n", filesystem=tmp_path
    )
    assert group == (str(tmp_path / "pids/one"),)
    assert not cgroups.is_bounding(group, "memory")
    assert not (tmp_path / "memory/one").exists()


def unified(root: Path, *, enabled: str) -> Path:
    own = root / "user/own"
    own.mkdir(parents=True)
    (root / "cgroup.controllers").write_text("memory pids")
    for place in (own, own.parent):
        (place / "cgroup.procs").write_text("")
    (own / "cgroup.subtree_control").mkdir()  # cannot be written, as in a group with processes
    (own.parent / "cgroup.subtree_control").write_text(enabled)
    return own


def test_version_2_takes_the_parent_when_the_own_group_has_no_controllers(tmp_path: Path) -> None:
    own = unified(tmp_path, enabled="cpu memory pids")
    group = cgroups.make_group("one", LIMITS, membership="0::/user/own\n", filesystem=tmp_path)
    assert group == (str(own.parent / "one"),)
    assert (own.parent / "one/memory.max").read_text() == str(1024**3)
    assert cgroups.is_bounding(group, "pids")


def test_nothing_is_made_where_nothing_may_be_written(tmp_path: Path) -> None:
    assert cgroups.make_group("one", LIMITS, membership="0::/gone\n", filesystem=tmp_path) == ()
    assert not cgroups.is_bounding((), "memory")
    cgroups.join_group((), 1)
    assert not cgroups.freeze(())


def test_a_group_that_refuses_a_process_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        cgroups.join_group((str(tmp_path / "gone"),), 1)


@pytest.mark.parametrize(
    ("name", "frozen", "thawed"),
    [("freezer.state", "FROZEN", "THAWED"), ("cgroup.freeze", "1", "0")],
)
def test_both_versions_freeze_and_thaw(tmp_path: Path, name: str, frozen: str, thawed: str) -> None:
    (tmp_path / name).write_text("")
    assert cgroups.freeze((str(tmp_path),))
    assert (tmp_path / name).read_text() == frozen
    assert cgroups.thaw((str(tmp_path),))
    assert (tmp_path / name).read_text() == thawed


def test_removing_gives_up_in_time_and_does_not_mind_what_is_gone(tmp_path: Path) -> None:
    busy = tmp_path / "busy"
    busy.mkdir()
    (busy / "child").mkdir()
    cgroups.remove_group((str(tmp_path / "gone"), str(busy)), timeout_s=0.01)
    assert busy.exists()
    (busy / "child").rmdir()
    cgroups.remove_group((str(busy),))
    assert not busy.exists()


def test_controllers_are_switched_on_for_the_groups_below(tmp_path: Path) -> None:
    own = unified(tmp_path, enabled="cpu")
    (own / "cgroup.procs").unlink()
    group = cgroups.make_group("one", LIMITS, membership="0::/user/own\n", filesystem=tmp_path)
    assert group == (str(own.parent / "one"),)
    assert (own.parent / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_a_group_whose_bounds_are_refused_is_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = unified(tmp_path, enabled="memory pids")
    monkeypatch.setattr(cgroups, "_bound", lambda _group, _bounds: False)
    group = cgroups.make_group("one", LIMITS, membership="0::/user/own\n", filesystem=tmp_path)
    assert group == ()
    assert not (own.parent / "one").exists()


def test_what_is_not_limited_is_not_written_and_a_refusal_is_noticed(tmp_path: Path) -> None:
    assert cgroups._bound(tmp_path, {"memory.max": None}) is True
    assert list(tmp_path.iterdir()) == []
    assert cgroups._bound(tmp_path / "gone", {"memory.max": 1}) is False


def test_a_group_of_version_1_whose_bounds_are_refused_bounds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("memory", "pids"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(cgroups, "_bound", lambda group, _bounds: "pids" in group.parts)
    membership = "2:memory:/\n1:pids:/\n"
    group = cgroups.make_group("one", LIMITS, membership=membership, filesystem=tmp_path)
    assert group == (str(tmp_path / "pids/one"),)
    assert not (tmp_path / "memory/one").exists()


def test_processors_are_bounded_only_where_that_is_asked(tmp_path: Path) -> None:
    for name in ("cpu", "cpuacct", "pids"):
        (tmp_path / name).mkdir()
    membership = "3:cpu:/\n2:cpuacct:/\n1:pids:/\n"
    without = cgroups.make_group("one", LIMITS, membership=membership, filesystem=tmp_path)
    assert set(without) == {str(tmp_path / n) for n in ("cpuacct/one", "pids/one")}
    assert not cgroups.is_bounding_cpus(without)
    limits = Limits(cpus=1.5)
    group = cgroups.make_group("two", limits, membership=membership, filesystem=tmp_path)
    assert str(tmp_path / "cpu/two") in group
    assert (tmp_path / "cpu/two/cpu.cfs_period_us").read_text() == "100000"
    assert (tmp_path / "cpu/two/cpu.cfs_quota_us").read_text() == "150000"
    assert cgroups.is_bounding_cpus(group)


def test_version_2_bounds_processors_where_it_can_and_the_rest_anyway(tmp_path: Path) -> None:
    own = unified(tmp_path, enabled="memory pids")
    (own / "cgroup.procs").unlink()
    limits = Limits(cpus=0.5)
    group = cgroups.make_group("one", limits, membership="0::/user/own\n", filesystem=tmp_path)
    assert (own.parent / "one/cpu.max").read_text() == "50000 100000"
    assert (own.parent / "cgroup.subtree_control").read_text() == "+cpu"
    assert cgroups.is_bounding_cpus(group)
    (own.parent / "one/cpu.max").write_text("max 100000")
    assert not cgroups.is_bounding_cpus(group)


def test_no_swap_stands_in_for_memory(tmp_path: Path) -> None:
    for name in ("memory.memsw.limit_in_bytes", "memory.swap.max"):
        (tmp_path / name).write_text("max")
    cgroups._forbid_swap(tmp_path, Limits(memory_bytes=None))
    assert (tmp_path / "memory.swap.max").read_text() == "max"
    cgroups._forbid_swap(tmp_path, Limits(memory_bytes=5))
    assert (tmp_path / "memory.memsw.limit_in_bytes").read_text() == "5"
    assert (tmp_path / "memory.swap.max").read_text() == "0"


def test_who_is_in_a_group_is_killed_and_who_stays_is_told(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text("")
    assert cgroups.kill_group((str(tmp_path), str(tmp_path / "gone")), timeout_s=1)
    sleeper = subprocess.Popen(["/bin/sleep", "60"])
    (tmp_path / "cgroup.procs").write_text(f"{sleeper.pid}\n")
    assert not cgroups.kill_group((str(tmp_path),), timeout_s=0)  # the file says so for ever
    assert sleeper.wait() in {0, -9}
