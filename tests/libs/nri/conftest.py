"""A runtime, and a handler of what it asks."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.libs.nri.plugin_bench import Told

from berth.testing.nri_runtime import FakeRuntime


@pytest.fixture
def handler() -> Told:
    return Told()


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[FakeRuntime]:
    found = FakeRuntime(tmp_path / "nri.sock")
    await found.start()
    yield found
    with contextlib.suppress(AssertionError):
        await found.stop()
