"""What the files of deployment are compared with: the services of this repository and their settings."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from berth.runtime.settings import ServiceSettings, variable_of

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
