"""The services of this repository, as the tests of the deployment see them."""

from __future__ import annotations

from tests.deploy.conftest import house

__all__ = ["house"]
