"""`agents env check` of each resource that can be added: needs, walls, what was found, cure."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from images import BUSYBOX, bare_image
from mainjob.devcontainers import added, described
from mainjob.driver import Answer, Desk
from patchyard.clients.trial_image import trial_image
from patchyard.environments import container
from services import kernel_folder


def checked(desk: Desk, name: str, *, code: int = 0) -> Answer:
    """What a check says; in the words for people it tells what is needed and which walls stand."""
    found = desk.agents("env", "check", name)
    assert found.code == code, found.message
    assert found.data["needs"]
    assert found.data["walls"]
    return found


def test_a_checkout_and_a_folder_are_there_or_not(desk: Desk) -> None:
    folder = desk.folder / "docs"
    folder.mkdir()
    added(desk)
    desk.agents("resource", "add", "directory", "files", "--path", str(folder))
    there = checked(desk, "co").data
    assert (there["type"], there["kind"], there["is_ready"]) == ("git-checkout", None, True)
    assert "nothing runs in it" in there["walls"]
    said = desk.agents("env", "check", "files", is_json=False)
    assert said.out.decode().startswith("files      is there\n  type     directory\n  needs ")
    folder.rmdir()
    lost = checked(desk, "files", code=4).message
    assert f"{folder} is not there" in lost
    assert "agents resource remove files" in lost
    (desk.repo / ".git").rename(desk.repo / "git")
    try:
        assert "no git checkout any more" in checked(desk, "co", code=4).message
    finally:
        (desk.repo / "git").rename(desk.repo / ".git")


def test_localhost_is_this_machine_and_is_tried_as_that(desk: Desk) -> None:
    desk.agents("resource", "add", "ssh-host", "here", "--host", "localhost")
    found = checked(desk, "here").data
    assert (found["kind"], found["facts"]["address"]) == ("ssh", "localhost")
    assert found["walls"].startswith("none: ")
    assert checked(desk, "ssh").data["facts"]["note"] == "by here"
    listed = desk.agents("env", "list").data["environments"]
    cures = {row["kind"]: row["cure"] for row in listed}
    assert "`agents env check here`" in cures["ssh"]  # which connects; a list does not


@pytest.mark.service("docker")
def test_a_container_without_an_image_has_that_of_the_checkouts_language(desk: Desk) -> None:
    desk.agents("resource", "add", "container-instance", "box")
    (desk.repo / "go.mod").write_text("module shop\n")
    settings = {"PATCHYARD_IMAGES": f"{{go: {bare_image(BUSYBOX)}}}"}
    found = desk.agents("env", "check", "box", environ=settings)
    assert (found.code, found.data["facts"]["note"]) == (0, "by go.mod"), found.message
    lost = desk.agents(
        "env", "check", "box", is_json=False, environ={"PATCHYARD_IMAGES": "{go: none/such:1}"}
    )
    assert (lost.code, "there is no image 'none/such:1' here" in lost.err) == (4, True)
    said = lost.out.decode()
    assert "\n  asked    image none/such:1\n" in said
    assert "found" not in said


def test_a_container_without_an_image_says_so_where_no_language_decides(
    desk: Desk,
) -> None:
    desk.agents("resource", "add", "container-instance", "box")
    lost = checked(replace(desk, repo=desk.folder), "box", code=4).message
    assert "box names no image" in lost
    assert "--image IMAGE" in lost


@pytest.mark.service("docker")
def test_a_devcontainer_is_started_where_its_image_is_there(desk: Desk) -> None:
    described(desk, {"image": bare_image(BUSYBOX)})
    added(desk)
    found = checked(desk, "co-devcontainer").data
    assert (found["kind"], found["facts"]["config"]) == (
        "devcontainer",
        ".devcontainer/devcontainer.json",
    )
    assert found["facts"]["visible"]


@pytest.mark.service("docker")
def test_a_devcontainer_that_is_not_built_is_looked_at_and_not_built(desk: Desk) -> None:
    place = desk.repo / ".devcontainer" / "Dockerfile"
    described(desk, {"build": {"dockerfile": "Dockerfile"}}, dockerfile="FROM none/such:1\n")
    added(desk)
    lost = checked(desk, "co-devcontainer", code=4).message
    assert ".devcontainer/Dockerfile:1: there is no image 'none/such:1' here" in lost
    place.write_text(f"FROM {bare_image(BUSYBOX)}\nRUN false\n")
    note = checked(desk, "co-devcontainer").data["facts"]["note"]
    assert note == "nothing was started: the first use builds it by .devcontainer/Dockerfile"
    said = desk.agents("env", "check", "co-devcontainer", is_json=False).out.decode()
    assert said.startswith("co-devcontainer looks well (nothing was started: ")
    place.unlink()
    assert "there is no file" in checked(desk, "co-devcontainer", code=4).message


def test_a_devcontainer_says_what_an_untrusted_file_may_not(desk: Desk) -> None:
    described(desk, {"image": "i", "privileged": True})
    added(desk)
    refused = checked(desk, "co-devcontainer", code=4).message
    assert "privileged" in refused
    assert "agents trust" in refused


@pytest.mark.service("docker")
def test_a_check_of_containers_leaves_no_image(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def named(own: str) -> tuple[str, bytes]:
        name, archive = trial_image(own)
        names.append(name)
        return name, archive

    monkeypatch.setattr(container, "trial_image", named)
    assert desk.agents("env", "check", "container").code == 0
    assert names
    for name in names:  # others on this engine may be at trials of their own
        listed = ["docker", "images", "--quiet", name]
        left = subprocess.run(listed, capture_output=True, text=True, check=True)
        assert left.stdout == ""


@pytest.mark.service("qemu")
@pytest.mark.timeout(900)
def test_the_cure_of_a_missing_kernel_cures(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = kernel_folder() or "/"
    monkeypatch.setattr("patchyard.clients.machine_templates.SYSTEM", tmp_path)
    monkeypatch.delenv("PATCHYARD_VM_IMAGE", raising=False)
    missing = desk.agents("env", "check", "vm")
    assert missing.code == 4, missing.message
    assert "agents resource add vm-image box --image ." in missing.message
    desk.agents("resource", "add", "vm-image", "box", "--image", folder)
    for name in ("vm", "box"):
        found = checked(desk, name).data
        assert (found["kind"], found["facts"]["image"]) == ("vm", folder)
        assert found["facts"]["note"].startswith("with ")


@pytest.mark.service("qemu")
def test_a_machines_folder_that_is_not_there_is_refused_and_told_when_it_goes(desk: Desk) -> None:
    folder = desk.folder / "guest"
    words = ("resource", "add", "vm-image", "box", "--image", str(folder))
    refused = desk.agents(*words)
    assert (refused.code, f"there is no folder {folder}" in refused.message) == (2, True)
    folder.mkdir()
    assert desk.agents(*words).code == 0
    folder.rmdir()
    lost = checked(desk, "box", code=4).message
    assert f"there is no folder {folder} for a virtual machine" in lost
    assert "bring it back" in lost


def test_an_unknown_name_lists_kinds_and_resources(desk: Desk) -> None:
    desk.agents("resource", "add", "directory", "files")
    wrong = desk.agents("env", "check", "flies")
    assert (wrong.code, "unknown kind or resource 'flies'." in wrong.message) == (2, True)
    assert "Did you mean 'files'?" in wrong.message
    assert "known: container, devcontainer, files, host, mock, process, ssh, vm" in wrong.message
