"""Keywords for kinds of places: whether this machine has one, and what a project links for it."""

import contextlib
import json
import sys
from pathlib import Path

from robot.api.deco import keyword, library
from robot.libraries.BuiltIn import BuiltIn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from stage import Stage, call, finish

from images import WITH_PYTHON, image
from services import REAL_ENVIRONMENT, absence, is_required, kernel_folder
from sshds import HOST, serving_ssh

__all__ = ["Kinds"]

Linked = tuple[str, tuple[str, ...]]  # the name of a resource, and what it is added with

NEEDS = {
    "container": "docker",
    "devcontainer": "docker",
    "process": "bubblewrap",
    "ssh": "sshd",
    "vm": "qemu",
}


@library(scope="TEST")
class Kinds:
    """What a test's stage needs around it to send work somewhere."""

    def __init__(self) -> None:
        self._around = contextlib.ExitStack()

    @property
    def _stage(self) -> Stage:
        stage: Stage = BuiltIn().get_library_instance("CommandLine").stage
        return stage

    @keyword
    def need(self, kind: str) -> None:
        """Skip the test where the kind cannot run; fail it where REQUIRE_SERVICES names that."""
        service = NEEDS.get(kind)
        why = absence(service) if service else None
        if service and why is not None and is_required(service):
            raise AssertionError(f"REQUIRE_SERVICES names {service}, but {why}")
        BuiltIn().skip_if(why is not None, f"needs {service}: {why}")
        if service == "docker" and "DOCKER_HOST" in REAL_ENVIRONMENT:
            self._stage.environment["DOCKER_HOST"] = REAL_ENVIRONMENT["DOCKER_HOST"]

    @keyword
    def link(self, kind: str) -> str:
        """Link what the kind needs to the project; what a plan says to go there."""
        linking = {
            "container": self._container,
            "devcontainer": self._devcontainer,
            "ssh": self._host,
            "vm": self._machine,
        }
        if kind not in linking:
            return kind
        name, words = linking[kind]()
        self._stage.prepare(("resource", "add", *words), ("project", "link-resource", "shop", name))
        return name

    def _container(self) -> Linked:
        return "box", ("container-instance", "box", "--image", image(WITH_PYTHON))

    def _devcontainer(self) -> Linked:
        body = json.dumps({"image": image(WITH_PYTHON)})
        self._stage.commit({".devcontainer/devcontainer.json": f"// the shop\n{body}\n"})
        return "co-devcontainer", ("git-checkout", "co", "--path", ".")

    def _host(self) -> Linked:
        server = self._around.enter_context(serving_ssh())
        server.configure(Path(self._stage.environment["HOME"]))
        return "far", ("ssh-host", "far", "--host", HOST)

    def _machine(self) -> Linked:
        own = ("--image", kernel_folder()) if kernel_folder() else ()
        return "machine", ("vm-image", "machine", *own)

    @keyword
    def unlink_all(self) -> None:
        """End the servers that were started."""
        self._around.close()

    @keyword
    def write_working_script(self) -> str:
        """A scripted model that writes a file, and works on it by a command; its name."""
        return self._stage.script(
            call("write_file", path="note.txt", content="a note\n"),
            call(
                "execute_command", command="sed s/a/one/ note.txt > other.txt && chmod +x other.txt"
            ),
            finish("both are there"),
        )

    @keyword
    def kinds_of_calls(self) -> list[str]:
        """Where the calls of the newest plan were sent, each kind once."""
        calls = self._stage.events("ToolCallRequested")
        return sorted({each["kind"] for each in calls})
