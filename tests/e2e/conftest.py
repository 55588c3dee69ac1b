"""What end-to-end tests share: the `berth` command as a process, and a control plane that is up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio
from tests.e2e.clusters import KINDS, REAL, cluster_of, skip_without_binaries
from tests.e2e.corner import Corner
from tests.e2e.whole import Whole, run_whole

DEADLINE_S = 120.0


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "e2e: the whole control plane as processes")


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Against which API server a file's tests run: each of them runs against both."""
    if request.param == REAL:
        skip_without_binaries()
    return str(request.param)


@pytest.fixture(scope="module")
def real_kind() -> str:
    """For what only the real API server can say."""
    skip_without_binaries()
    return REAL


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Command:
    """`berth` with a runtime folder of its own, so that tests don't find each other's control planes."""

    def __init__(self, runtime: Path) -> None:
        self._env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BERTH_")},
            "XDG_RUNTIME_DIR": str(runtime),
            "TMPDIR": str(runtime),
            "NO_COLOR": "1",
        }
        self.temporary = runtime

    def __call__(self, *arguments: str, env: Mapping[str, str] | None = None) -> Ran:
        with self.start(*arguments, env=env) as process:
            try:
                out, err = process.communicate(timeout=DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM)
                out, err = process.communicate(timeout=DEADLINE_S)
                pytest.fail(f"berth {' '.join(arguments)} takes too long:\n{out}\n{err}")
        return Ran(process.returncode, out, err)

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "berth.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**self._env, **(env or {})},
        )

    def left_behind(self) -> list[str]:
        """Folders of runs that have not been removed."""
        return [path.name for path in self.temporary.glob("berth-*") if not path.name.startswith("berth-runs")]


@pytest.fixture
def berth(tmp_path: Path) -> Command:
    return Command(tmp_path)


class Up(NamedTuple):
    berth: Command
    process: subprocess.Popen[str]
    nats_url: str
    kube_url: str


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One `berth up` for the tests of a file."""
    command = Command(tmp_path_factory.mktemp("up"))
    process = command.start("up", "--nodes", "6", "--seed", "3", "--solvers", "2")
    found: dict[str, str] = {}
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        for what in ("bus", "Kubernetes API"):
            if line.strip().startswith(f"{what}  "):
                found[what] = line.strip()[len(what) :].split()[0]
        if "Ctrl-C" in line:
            break
    if len(found) != 2:
        process.kill()
        pytest.fail(f"berth up did not come up:\n{''.join(lines)}\n{process.stderr.read() if process.stderr else ''}")
    yield Up(command, process, found["bus"], found["Kubernetes API"])
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert command.left_behind() == []


def until(done: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + deadline_s
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.fixture(name="until")
def until_fixture() -> Callable[..., None]:
    return until


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(kind: str) -> AsyncIterator[Whole]:
    """A control plane for the tests of a file."""
    with cluster_of(kind) as cluster:
        async with run_whole(cluster) as running:
            yield running


@pytest_asyncio.fixture(loop_scope="module")
async def corner(whole: Whole) -> AsyncIterator[Corner]:
    """A corner of it for one test."""
    async with whole.corner() as made:
        yield made
