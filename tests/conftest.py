"""Servers that tests share."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from berth.testing.nats_server import NatsServer

SIMULATION = Path(__file__).parent / "simulation"
WORLDS = (SIMULATION, Path(__file__).parent / "libs/testing")
"""Where tests make simulated worlds."""

# Speed is never asserted, also not by hypothesis; integration tries the same examples every time, developers new ones.
# A property that says nothing of its own is tried with so many; of what nobody may have twice each says how many.
settings.register_profile("berth", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("integration", settings.get_profile("berth"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("berth"), max_examples=1000)
settings.load_profile("integration" if os.environ.get("CI") else "berth")


def pytest_collection(session: pytest.Session) -> None:
    """Each of several workers begins elsewhere: a module that one of them has compiled is loaded by the others.

    What cannot be imported here is imported again, and reported, where it is collected.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    files = sorted(
        file for name in session.config.args for file in Path(name.split("::")[0]).resolve().rglob("test_*.py")
    )
    number = int(worker["workerid"].removeprefix("gw"))
    for file in files[len(files) * number // worker["workercount"] :]:
        module = ".".join(file.relative_to(session.config.rootpath).with_suffix("").parts)
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(module)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs of the simulation come first, so that no process has a long one left when all others are done."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[bool, bool]:
    return item.get_closest_marker("slow") is None, SIMULATION not in item.path.parents


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: a collection of garbage, which each simulated world makes, passes them by."""
    _set_aside()


@pytest.fixture(scope="module", autouse=True)
def _heap(request: pytest.FixtureRequest) -> None:
    """The same goes for what thousands of tests before these have left behind."""
    if not set(WORLDS).isdisjoint(request.path.parents):
        _set_aside()


def _set_aside() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture
def nats_server() -> Iterator[NatsServer]:
    """A nats-server of this test's own; kill it, restart it, as you like."""
    with NatsServer() as server:
        yield server


@pytest.fixture(scope="module")
def shared_nats_server() -> Iterator[NatsServer]:
    """A nats-server for the tests of one file, which leave each other's streams and subjects alone."""
    with NatsServer() as server:
        yield server
