"""What every package has, and who may import what."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tests.house.survey import PACKAGES, ROOT, SERVICES, facts, installed_with, module_of, name_of, sources


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_installed_with_all_that_it_imports(service: str) -> None:
    """An image holds what its service declares, and what that declares; a checkout holds everything."""
    owners = {module_of(path): (package, path) for package in PACKAGES for path in sources(package)}
    here = ROOT / "services" / service
    reached = {module for module, (package, _) in owners.items() if package == here}
    todo = list(reached)
    while todo:
        found = {name for name in facts(owners[todo.pop()][1]).imports_at_start if name in owners}
        found |= {name.rpartition(".")[0] for name in found} & set(owners)
        todo += found - reached
        reached |= found
    needed = {name_of(owners[module][0]) for module in reached}
    assert needed <= installed_with(here)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_is_whole(package: Path) -> None:
    project = tomllib.loads((package / "pyproject.toml").read_text())
    folder = package / "src" / project["tool"]["uv"]["build-backend"]["module-name"].replace(".", "/")
    assert (folder / "py.typed").is_file()
    assert facts(folder / "__init__.py").documented
    readme = (package / "README.md").read_text()
    assert readme.startswith(f"# {project['project']['name']}\n")
    assert 8 <= len(readme.splitlines()) <= 100, "two screens at most, and not empty"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_every_module_says_why_it_exists(package: Path) -> None:
    silent = [path.name for path in sources(package) if not facts(path).documented]
    assert not silent


def test_only_telemetry_imports_the_opentelemetry_sdk() -> None:
    guilty = [
        path.relative_to(ROOT)
        for package in PACKAGES
        if package.name != "telemetry"
        for path in sources(package)
        if any(name.startswith(("opentelemetry.sdk", "opentelemetry.exporter")) for name in facts(path).imports)
    ]
    assert not guilty


def test_the_import_contracts_cover_every_package() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    modules = {
        tomllib.loads((package / "pyproject.toml").read_text())["tool"]["uv"]["build-backend"]["module-name"]
        for package in PACKAGES
    }
    contracts = {each["name"]: each for each in config["tool"]["importlinter"]["contracts"]}
    services = {f"berth.{service.replace('-', '_')}" for service in SERVICES}
    assert set(config["tool"]["importlinter"]["root_packages"]) == modules
    assert set(contracts["Services never import each other"]["modules"]) == services
    assert services <= set(contracts["Libraries never import services"]["forbidden_modules"])
    cores = set(contracts["Cores and pure libraries import no I/O, no clock, no randomness"]["source_modules"])
    assert {f"{service}.core" for service in services} <= cores
    for owner, name in (
        ("berth.bus", "Only berth.bus imports nats"),
        ("berth.kube", "Only berth.kube imports kubernetes_asyncio"),
        ("berth.kubelet", "Only berth.kubelet imports grpc"),
    ):
        assert set(contracts[name]["source_modules"]) == modules - {owner}
