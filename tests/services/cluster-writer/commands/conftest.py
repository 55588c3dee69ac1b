"""Commands that are carried out, and a node that they are about."""

from __future__ import annotations

import pytest
from tests.services.worlds.writer.command_bench import CommandBench


@pytest.fixture
def desk(api):
    return CommandBench(api)


@pytest.fixture
def uid(api):
    """A node that is there."""
    return api.node("n").uid
