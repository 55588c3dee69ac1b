"""What the files of deployment are held against: the services of this repository, and a real API server."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploy.real_api import prepare

from berth.runtime.settings import ServiceSettings, variable_of
from berth.testing.kube_server import KubeMissingError, KubeServer

ROOT = Path(__file__).parents[2]


class House:
    """The repository as the deployment sees it."""

    root = ROOT

    @property
    def services(self) -> list[str]:
        return sorted(path.name for path in (ROOT / "services").iterdir() if (path / "pyproject.toml").is_file())

    def settings(self, service: str) -> type[ServiceSettings]:
        found = importlib.import_module(f"berth.{service.replace('-', '_')}.settings").Settings
        assert issubclass(found, ServiceSettings)
        return found

    def variables(self, service: str) -> set[str]:
        return {variable_of(name) for name in self.settings(service).__struct_fields__}


@pytest.fixture(scope="session")
def house() -> House:
    return House()


@pytest.fixture(scope="session")
def api() -> Iterator[KubeServer]:
    """One for all manifests: what a test makes there has a name of its own."""
    try:
        server = KubeServer()
    except KubeMissingError as error:
        pytest.skip(str(error))
    with server:
        prepare(server)
        yield server
