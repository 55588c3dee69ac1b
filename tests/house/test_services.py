"""Each service has the parts and the layers of the others."""

from __future__ import annotations

import ast
import tomllib

import pytest
from tests.house.survey import ROOT, SERVICES

LAYERS = ["shell", "reconciler", "views", "core"]
LAYERED = ["admission-webhook", "auditor", "device-inventory", "quota-manager", "reservation-manager", "slo-manager"]
"""Services that have these layers, and no module of another name beside them but those of `BESIDE`."""
SPECIALISTS = {
    "placement-solver": {"pacing", "rounds", "views"},
    "cluster-writer": {"wave_runner", "views"},
    "cluster-watcher": {"term", "reconciler"},
    "node-qos-enforcer": {"reconciler", "views"},
    "node-authenticator": set(),
    "yarn-operator": {"resource_manager", "views"},
    "recorder": {"views"},
}
"""The others, which have a loop of their own, and the layers that they have between shell and core."""
BESIDE = {"__init__", "__main__", "settings", "py.typed"}
INPUTS = {
    "admission-webhook": {"keys", "server"},
    "auditor": {"lists"},
    "quota-manager": {"configuration", "hooks", "supposing"},
}
"""What a service reads beside buckets."""


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_the_parts_of_the_others(service: str) -> None:
    module = service.replace("-", "_")
    folder = ROOT / f"services/{service}/src/berth/{module}"
    assert {"settings.py", "shell.py", "__main__.py", "core", "py.typed"} <= {path.name for path in folder.iterdir()}
    project = tomllib.loads((ROOT / f"services/{service}/pyproject.toml").read_text())["project"]
    assert project["name"] == f"berth-{service}"
    assert (ROOT / f"tests/services/{service}").is_dir()


@pytest.mark.parametrize("service", LAYERED)
def test_a_service_has_the_layers(service: str) -> None:
    module = service.replace("-", "_")
    folder = ROOT / f"services/{service}/src/berth/{module}"
    modules = {path.name.removesuffix(".py") for path in folder.iterdir()} - {"__pycache__"}
    assert modules == {*LAYERS, *BESIDE} | INPUTS.get(service, set())
    classes = {
        layer: {
            node.name for node in ast.parse((folder / f"{layer}.py").read_text()).body if isinstance(node, ast.ClassDef)
        }
        for layer in ("shell", "reconciler")
    }
    assert classes["shell"] == {"Shell"}, "wiring alone"
    assert "Reconciler" in classes["reconciler"]
    assert (ROOT / f"tests/services/{service}/test_shell.py").is_file()


def test_every_service_has_a_place_in_the_house() -> None:
    assert sorted([*LAYERED, *SPECIALISTS]) == SERVICES
    specialised = {layer for layers in SPECIALISTS.values() for layer in layers} | set(LAYERS)
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = {each["name"]: each for each in config["tool"]["importlinter"]["contracts"]}
    found = contracts["Specialists stand between a shell and what it sees"]
    assert {layer.strip("()") for layer in found["layers"]} == specialised
    assert set(found["containers"]) == {f"berth.{service.replace('-', '_')}" for service in SPECIALISTS}


@pytest.mark.parametrize("service", SPECIALISTS)
def test_a_service_with_specialists_has_its_layers(service: str) -> None:
    folder = ROOT / f"services/{service}/src/berth/{service.replace('-', '_')}"
    modules = {path.name.removesuffix(".py") for path in folder.iterdir()}
    assert {"shell", "core", *SPECIALISTS[service]} <= modules
    assert {
        "pacing",
        "term",
        "rounds",
        "wave_runner",
        "reconciler",
        "resource_manager",
        "views",
    } & modules == SPECIALISTS[service]


def test_the_layers_are_contracts_of_the_linter() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = {each["name"]: each for each in config["tool"]["importlinter"]["contracts"]}
    layers = contracts["A service is a shell over a reconciler over views over a core"]
    modules = [f"berth.{service.replace('-', '_')}" for service in LAYERED]
    assert layers["layers"] == LAYERS
    assert set(layers["containers"]) == set(modules)
    pure = contracts["Reconcilers and views do no I/O, read no clock, draw no random numbers"]["source_modules"]
    assert set(pure) == {f"{module}.{layer}" for module in modules for layer in ("reconciler", "views")}
