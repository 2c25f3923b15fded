"""Names to import paths: the one table that a new adapter is entered in."""

import importlib
from collections.abc import Mapping
from typing import Any

from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.gates import Reads

ENVIRONMENTS: Mapping[ExecutionEnvironment, str] = {
    ExecutionEnvironment.CONTAINER: "patchyard.environments.container:ContainerEnvironment",
    ExecutionEnvironment.DEVCONTAINER: (
        "patchyard.environments.devcontainer:DevcontainerEnvironment"
    ),
    ExecutionEnvironment.HOST: "patchyard.environments.host:HostEnvironment",
    ExecutionEnvironment.MOCK: "patchyard.environments.mock:MockEnvironment",
    ExecutionEnvironment.PROCESS: "patchyard.environments.process:ProcessEnvironment",
    ExecutionEnvironment.SSH: "patchyard.environments.ssh:SSHEnvironment",
    ExecutionEnvironment.VM: "patchyard.environments.vm:VmEnvironment",
}

ACTORS: Mapping[str, Mapping[str, str]] = {
    "model": {
        "strategize": "patchyard.actors.model:ModelActor",
        "execute": "patchyard.actors.model:ModelActor",
    },
    "recipe": {
        "strategize": "patchyard.actors.recipe:StrategizeStubActor",
        "execute": "patchyard.actors.recipe:ExecuteStubActor",
    },
}


READERS: Mapping[Reads, str] = {
    Reads.CARGO_TEST: "patchyard.validators.cargo_test:CargoTestReader",
    Reads.COVERAGE: "patchyard.validators.coverage:CoverageReader",
    Reads.GO_TEST: "patchyard.validators.go_test:GoTestReader",
    Reads.JSON: "patchyard.validators.json_items:JsonReader",
    Reads.JUNIT: "patchyard.validators.junit:JUnitReader",
    Reads.NUMBER: "patchyard.validators.number:NumberReader",
    Reads.SARIF: "patchyard.validators.sarif:SarifReader",
    Reads.TEXT: "patchyard.validators.text:TextReader",
}

SCANNERS: Mapping[Reads, str] = {
    Reads.ADVISORIES: "patchyard.validators.advisories:AdvisoryScanner",
    Reads.LICENCES: "patchyard.validators.licences:LicenceScanner",
    Reads.SECRETS: "patchyard.validators.secrets:SecretScanner",
}


def load(path: str) -> Any:
    """Import `module:attribute` and return the attribute."""
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


__all__ = ["ACTORS", "ENVIRONMENTS", "READERS", "SCANNERS", "load"]
