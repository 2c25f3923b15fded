import os
from collections.abc import Callable
from pathlib import Path

import pytest

from patchyard.clients import toolchains
from patchyard.clients.disk import LocalDisk
from patchyard.clients.toolchains import (
    Surroundings,
    ToolchainFinder,
    Toolchains,
    find_toolchains,
    is_within,
)

Search = Callable[..., Toolchains]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "alice"
    home.mkdir()
    return home


@pytest.fixture
def search(home: Path) -> Search:
    def run(*entries: Path | str, checkout: Path | None = None) -> Toolchains:
        return find_toolchains(
            Surroundings(
                search_path=":".join(map(str, entries)),
                home=str(home),
                owners=frozenset({0, os.geteuid()}),
                checkout=str(checkout or home / "src" / "project"),
                private=(str(home / ".local/share/patchyard"),),
            ),
            LocalDisk(),
        )

    return run


def make(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".d":
            path.mkdir()
        else:
            path.write_text("")


def shown(found: Toolchains) -> set[str]:
    assert not any(mount.is_writable for mount in found.mounts)
    return {mount.target for mount in found.mounts}


def test_system_folders_stay_in_path_without_a_mount(search: Search) -> None:
    found = search("/usr/bin", "/bin")
    assert found.path == ("/usr/bin", "/bin")
    assert not [mount for mount in found.mounts if is_within(mount.target, "/usr")]


def test_pyenv_shows_its_parts_and_not_its_clone(search: Search, home: Path) -> None:
    root = home / ".pyenv"
    make(
        *(root / "versions/3.12.1/bin/python", root / "libexec/pyenv", root / "shims/python"),
        *(root / ".git/config", root / "version"),
    )
    found = search(root / "shims")
    assert shown(found) == {f"{root}/{n}" for n in ("libexec", "shims", "version", "versions")}
    assert found.variables["PYENV_ROOT"] == str(root)
    assert found.path == (f"{root}/shims",)


def test_cargo_shows_programs_and_toolchains_but_no_credentials(search: Search, home: Path) -> None:
    make(
        *(home / ".cargo/bin/cargo", home / ".cargo/credentials.toml"),
        *(home / ".rustup/toolchains/stable/bin/rustc", home / ".rustup/settings.toml"),
    )
    found = search(home / ".cargo/bin")
    assert shown(found) == {
        f"{home}/.cargo/bin",
        f"{home}/.rustup/settings.toml",
        f"{home}/.rustup/toolchains",
    }


def test_nvm_shows_the_version_in_use(search: Search, home: Path) -> None:
    prefix = home / ".nvm/versions/node/v20"
    make(prefix / "bin/node", prefix / "include/node/node.h", home / ".nvm/.cache/x")
    assert shown(search(prefix / "bin")) == {str(prefix)}


def test_asdf_and_mise_show_shims_and_installs(search: Search, home: Path) -> None:
    asdf, mise = home / ".asdf", home / ".local/share/mise"
    make(asdf / "shims/go", asdf / "installs/go/1.22/bin/go", asdf / "plugins/go/bin/list")
    make(mise / "shims/node", mise / "installs/node/latest/bin/node")
    found = search(asdf / "shims", mise / "shims")
    assert {f"{asdf}/shims", f"{asdf}/installs", f"{mise}/installs"} <= shown(found)
    assert f"{mise}/installs/node/latest/bin" in found.path


def test_uv_tools_are_shown_and_its_credentials_are_not(search: Search, home: Path) -> None:
    share = home / ".local/share"
    make(
        *(home / ".local/bin/uv", share / "uv/python/cpython-3.12/bin/python"),
        *(share / "uv/credentials/store", share / "keyrings/login"),
    )
    assert shown(search(home / ".local/bin")) == {f"{home}/.local/bin", f"{share}/uv/python"}


def test_conda_go_and_java_prefixes_are_shown_whole(search: Search, home: Path) -> None:
    conda, go = home / "miniconda3", home / "sdk/go1.22"
    java = home / ".sdkman/candidates/java/21"
    make(conda / "conda-meta/history", conda / "bin/python")
    make(go / "pkg/tool/x", go / "src/fmt/print.go", go / "bin/go")
    make(java / "lib/jrt-fs.jar", java / "conf/net.properties", java / "bin/java")
    current = java.parent / "current"
    current.symlink_to("21")
    found = search(conda / "bin", go / "bin", current / "bin")
    assert {str(conda), str(go), str(java), str(current)} <= shown(found)


def test_a_virtual_environment_outside_the_checkout_comes_with_its_python(
    search: Search, home: Path
) -> None:
    base, venv = home / "pythons/3.12", home / "envs/tools"
    make(base / "include/python3.12/Python.h", base / "bin/python3.12", venv / "bin/pytest")
    (venv / "pyvenv.cfg").write_text(f"home = {base}/bin\n")
    assert shown(search(venv / "bin")) == {str(base), str(venv)}


def test_a_virtual_environment_inside_the_checkout_is_not_shown(search: Search, home: Path) -> None:
    checkout = home / "src/project"
    make(checkout / ".venv/pyvenv.cfg", checkout / ".venv/bin/python")
    found = search(checkout / ".venv/bin", checkout=checkout)
    assert (found.mounts, found.path) == ((), ())
    assert "checkout" in found.skipped[f"{checkout}/.venv/bin"]


@pytest.mark.parametrize(
    "place", [".", ".ssh", ".config/composer/bin", ".aws/bin", ".local/share/patchyard/bin", ".."]
)
def test_the_home_and_places_of_credentials_are_never_shown(
    search: Search, home: Path, place: str
) -> None:
    (home / place).mkdir(parents=True, exist_ok=True)
    found = search(home / place)
    assert (found.mounts, found.path) == ((), ())
    assert found.skipped


def test_a_link_that_leads_to_a_place_of_credentials_is_not_followed(
    search: Search, home: Path
) -> None:
    (home / ".ssh").mkdir()
    (home / "bin").symlink_to(".ssh")
    assert search(home / "bin").mounts == ()


def test_a_prefix_that_holds_credentials_shows_just_its_programs(
    search: Search, home: Path
) -> None:
    make(home / ".gem/bin/rake", home / ".gem/credentials", home / ".gem/lib/x")
    assert str(home / ".gem") not in shown(search(home / ".gem/bin"))


def test_a_folder_that_everybody_may_write_to_is_skipped(search: Search, home: Path) -> None:
    folder = home / "shared/bin"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert search(folder).skipped == {str(folder): "somebody else owns it or may write to it"}


def test_of_homebrew_only_its_programs_are_shown(search: Search, tmp_path: Path) -> None:
    brew = tmp_path / "linuxbrew"
    make(brew / "Cellar/jq/1.7/bin/jq", brew / "var/mysql/data", brew / "etc/my.cnf")
    make(brew / "etc/openssl@3/cert.pem", brew / "include/python3.12/Python.h", brew / "bin/brew")
    (brew / "bin/jq").symlink_to("../Cellar/jq/1.7/bin/jq")
    names = ("Cellar", "bin", "etc/openssl@3", "include")
    assert shown(search(brew / "bin")) == {f"{brew}/{name}" for name in names}


def test_settings_that_may_hold_passwords_are_hidden(search: Search, home: Path) -> None:
    venv, pyenv = home / "envs/tool", home / ".pyenv"
    keyed = (
        *(venv / "pip.conf", pyenv / "versions/3.11.7/pip.conf"),
        *(pyenv / "versions/20.1/etc/npmrc",),
    )
    make(venv / "pyvenv.cfg", venv / "bin/x", *keyed, home / "real/pip.conf")
    make(pyenv / "libexec/pyenv", pyenv / "shims/python", pyenv / "versions/other.conf")
    (pyenv / "versions/3.11.7/.condarc").symlink_to(venv / "pip.conf")
    (pyenv / "versions/20.1/.npmrc").symlink_to(home / "real/pip.conf")
    (home / "called").symlink_to(venv)
    found = search(home / "called/bin", pyenv / "shims")
    assert set(found.hidden) == {*map(str, keyed), f"{home}/called/pip.conf"}


@pytest.mark.service("root")
def test_a_folder_of_somebody_else_is_skipped(search: Search, home: Path) -> None:
    folder = home / "theirs/bin"
    folder.mkdir(parents=True)
    os.chown(folder, 1234, 1234)
    assert search(folder).mounts == ()


def test_programs_that_are_links_bring_what_they_lead_to(search: Search, home: Path) -> None:
    node = home / "node-20"
    make(node / "include/node/node.h", node / "bin/node", home / "scripts/one.sh")
    make(home / "bin/own")
    (home / "bin/node").symlink_to(node / "bin/node")
    (home / "bin/one").symlink_to(home / "scripts/one.sh")
    assert shown(search(home / "bin")) == {f"{home}/bin", str(node), f"{home}/scripts/one.sh"}


def test_relative_and_missing_entries_are_ignored(search: Search, home: Path) -> None:
    found = search("", ".", "node_modules/.bin", home / "missing")
    assert (found.mounts, found.path) == ((), ())


def test_the_search_is_repeated_only_when_a_folder_of_path_changed(home: Path) -> None:
    make(home / "bin/one", home / "scripts/two")
    finder = ToolchainFinder(search_path=f"{home}/bin", home=str(home))
    first = finder.find("/checkout")
    assert finder.find("/checkout") is first
    (home / "bin/two").symlink_to(home / "scripts/two")
    os.utime(home / "bin", ns=(1, 1))
    assert f"{home}/scripts/two" in {mount.target for mount in finder.find("/checkout").mounts}


def test_mise_shims_bring_the_newest_installs_into_path(search: Search, home: Path) -> None:
    root = home / ".local/share/mise"
    make(root / "shims/node", root / "installs/node/latest/bin/node", root / "installs/go/1.2/x")
    found = search(root / "shims")
    assert str(root / "installs/node/latest/bin") in found.path
    assert not [place for place in found.path if "/go/" in place]


def test_a_file_far_from_any_installation_comes_alone(search: Search, tmp_path: Path) -> None:
    deep = tmp_path / "a/b/c/d/e/f/g/h/tool"
    make(deep, tmp_path / "programs/x")
    (tmp_path / "programs/tool").symlink_to(deep)
    found = search(tmp_path / "programs")
    assert str(deep) in shown(found)
    assert str(deep.parent) not in shown(found)


def test_a_folder_that_went_counts_as_never_changed(tmp_path: Path) -> None:
    assert toolchains._changed_ns(str(tmp_path)) > 0
    assert toolchains._changed_ns(str(tmp_path / "none")) == 0
