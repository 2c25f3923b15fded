from pathlib import Path

import pytest

from patchyard.clients import walls
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.interpreters import Interpreter, choose_interpreter
from patchyard.clients.rlimits import resource_limits
from patchyard.clients.toolchains import Toolchains
from patchyard.clients.walls import Machine, Place, Show, View, build_view, describe
from patchyard.domain.environment import EnvironmentSpec, Limits, Mount
from patchyard.domain.errors import UsageError
from patchyard.toolbox import surveying

MACHINE = Machine(
    system=(Place(target="/usr", show=Show.READ_ONLY, source="/usr"),),
    etc=(Place(target="/etc/ssl/certs", show=Show.READ_ONLY, source="/etc/ssl/certs"),),
    masked=("/proc/keys",),
    shell_path="/bin/bash",
    toolbox="/engine/toolbox",
    interpreter=Interpreter(path="/usr/bin/python3"),
)


def spec(
    target: str = "/home/alice/src/project", *mounts: Mount, is_writable: bool = True
) -> EnvironmentSpec:
    return EnvironmentSpec(
        plan_id="p",
        purpose="execute",
        workspace=Mount(source="/state/tree", target=target, is_writable=is_writable),
        mounts=mounts,
        path=("/layer/bin",),
        variables={"CI": "1"},
    )


@pytest.mark.parametrize("target", ["/usr", "/proc"])
def test_what_would_hide_a_part_of_the_walls_is_refused_with_a_cure_of_its_own(target: str) -> None:
    for wanted, cure in (
        (spec("/w", Mount(source="/data", target=target)), f"`--mount {target}/NAME`"),
        (spec(target), "move the checkout"),
    ):
        with pytest.raises(UsageError, match=f"{target} would stand in") as refused:
            view(wanted)
        assert cure in refused.value.hint


def view(wanted: EnvironmentSpec, toolchains: Toolchains | None = None) -> View:
    return build_view(
        wanted,
        identity=AgentIdentity(uid=60900, gid=60900, is_switched=True),
        machine=MACHINE,
        toolchains=toolchains or Toolchains(),
    )


def position(drawn: View, target: str) -> int:
    return [place.target for place in drawn.places].index(target)


def test_outer_places_come_before_those_inside_them() -> None:
    project = "/home/alice/src/project"
    history = Mount(source="/state/history", target=f"{project}/.git/objects")
    drawn = view(spec(project, history))
    order = ["/home", "/home/alice", "/home/alice/src", project, f"{project}/.git/objects"]
    assert [position(drawn, target) for target in order] == sorted(
        position(drawn, target) for target in order
    )


def test_made_parents_can_be_passed_through_whatever_the_umask() -> None:
    parents = [
        place
        for place in view(spec()).places
        if place.target in {"/home/alice", "/etc", "/etc/ssl"}
    ]
    assert [(place.show, place.mode) for place in parents] == [(Show.DIRECTORY, 0o755)] * 3


def test_nothing_of_the_home_is_shown_but_the_workspace() -> None:
    sources = {p.source for p in view(spec()).places if p.show in {Show.READ_ONLY, Show.WRITABLE}}
    assert sources == {"/usr", "/etc/ssl/certs", "/engine/toolbox", "/state/tree"}


def test_the_only_writable_places_are_the_workspace_and_memory() -> None:
    drawn = view(spec())
    writable = [p.target for p in drawn.places if p.show is Show.WRITABLE]
    memory = [p.target for p in drawn.places if p.show is Show.EMPTY]
    assert writable == ["/home/alice/src/project"]
    assert memory == ["/dev/shm", "/home", "/tmp", "/var/tmp"]


def test_planning_sees_the_workspace_read_only_and_sends_caches_elsewhere() -> None:
    drawn = view(spec(is_writable=False))
    assert drawn.places[position(drawn, "/home/alice/src/project")].show is Show.READ_ONLY
    assert drawn.variables["PYTHONPYCACHEPREFIX"].startswith("/tmp/")
    assert "PYTHONPYCACHEPREFIX" not in view(spec()).variables


def test_path_is_the_layer_then_toolchains_then_the_system() -> None:
    toolchains = Toolchains(path=("/home/alice/.pyenv/shims",), variables={"PYENV_ROOT": "/x"})
    variables = view(spec(), toolchains).variables
    assert variables["PATH"].split(":")[:3] == [
        *("/layer/bin", "/home/alice/.pyenv/shims", "/usr/local/sbin")
    ]
    assert (variables["PYENV_ROOT"], variables["CI"]) == ("/x", "1")


@pytest.mark.parametrize(
    "target",
    [
        *("/", "/usr", "/etc", "/home", "/tmp", "/proc", "/run/../dev"),
        *("/run", "/run/patchyard/toolbox", "/run/patchyard/toolbox/__pycache__", "/proc/1"),
        *("//run//patchyard/../patchyard/python", "/dev/shm", "/sys/fs"),
    ],
)
def test_a_workspace_cannot_stand_in_for_the_system(target: str) -> None:
    with pytest.raises(UsageError) as refused:
        view(spec(target))
    assert refused.value.hint


@pytest.mark.parametrize("target", ["/home/agent", "/home/agent/src/project"])
def test_the_agents_home_moves_out_of_the_way_of_the_workspace(target: str) -> None:
    assert view(spec(target)).home == "/home/patchyard-agent"


def test_the_agents_home_moves_out_of_the_way_of_toolchains() -> None:
    mounts = [Mount(source="/x", target=f"/home/{name}/x") for name in ("agent", "patchyard-agent")]
    assert view(spec(), Toolchains(mounts=tuple(mounts))).home == "/tmp/patchyard-agent"


def test_rows_say_what_is_seen_of_the_host() -> None:
    rows = {row["path"]: row for row in describe(view(spec()))}
    assert rows["/usr"] == {"path": "/usr", "access": "read-only", "source": "/usr"}
    assert rows["/etc/passwd"]["access"] == "made up"
    assert rows["/etc/passwd"]["source"] == ""
    assert rows["/proc/keys"]["access"] == "hidden"


@pytest.mark.parametrize(
    ("system", "prefix", "path", "mounts"),
    [
        ("/usr/bin/python3.11", "/home/a/py", "/usr/bin/python3", []),
        ("/usr/bin/python3.7", "/home/a/py", "/engine/python", ["/home/a/py"]),
        ("/usr/bin/python3", "/usr", "/engine/python", []),
    ],
)
def test_the_toolbox_runs_on_the_systems_python_or_the_engines(
    system: str, prefix: str, path: str, mounts: list[str]
) -> None:
    links = {"/usr/bin/python3": system}
    chosen = choose_interpreter(
        resolve=lambda name: links.get(name, name), executable="/engine/python", prefix=prefix
    )
    assert (chosen.path, [mount.target for mount in chosen.mounts]) == (path, mounts)


def test_rlimits_bound_what_no_control_group_does() -> None:
    limits = Limits(memory_bytes=5, processes=6, cpu_seconds=7)
    alone = resource_limits(limits, bounds_memory=True, bounds_processes=True)
    grouped = resource_limits(limits, bounds_memory=False, bounds_processes=False)
    assert (alone["RLIMIT_DATA"], alone["RLIMIT_NPROC"], alone["RLIMIT_CPU"]) == (5, 6, 7)
    assert not {"RLIMIT_DATA", "RLIMIT_NPROC"} & set(grouped)
    assert grouped["RLIMIT_CORE"] == 0


def test_a_link_is_followed_only_to_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "system").symlink_to("/usr/bin")
    names = ("real", "link", "dangling", "system", "none")
    places = [str(tmp_path / name) for name in names]
    found = surveying.survey({**walls.WANTED, "system": ["/usr", *places]})["system"]
    assert found[1:] == [
        [places[0], surveying.COPY, places[0]],
        [places[1], surveying.LINK, "real"],
        [places[3], surveying.LINK, "/usr/bin"],
    ]
    alone = surveying.survey({**walls.WANTED, "system": [places[1]], "copied_bytes": 1})["system"]
    assert alone == [[places[1], surveying.READ_ONLY, places[0]]]


def test_settings_of_the_systems_installations_are_hidden(tmp_path: Path) -> None:
    (tmp_path / "conda").mkdir()
    (tmp_path / "conda/.condarc").touch()
    (tmp_path / "linked").symlink_to("conda")
    assert walls.WANTED["installations"] == ("/usr", "/usr/local", "/opt/*")
    found = surveying.survey({**walls.WANTED, "installations": [f"{tmp_path}/*"]})["masked"]
    assert [path for path in found if path.startswith(str(tmp_path))] == [
        f"{tmp_path}/conda/.condarc"
    ]
