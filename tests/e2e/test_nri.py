"""The plugin of the container runtime against a real containerd: containers start with what was decided."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.e2e.container_runtime import ContainerRuntime, lacking, processes_with, status_of

from berth.nri import (
    Adjustment,
    Creation,
    Device,
    Event,
    Fault,
    Handler,
    Mount,
    Plugin,
    PluginSettings,
    Resources,
    Update,
)
from berth.nri import api_pb2 as api

pytestmark = pytest.mark.e2e
DEADLINE_S = 30.0
LAST = max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
FIRST = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


class Decides(Handler):
    """Gives every container called `main` the same, and remembers what it hears."""

    def __init__(self, creation: Creation) -> None:
        self.creation = creation
        self.seen: list[str] = []
        self.running: list[str] = []
        self.events: list[Event] = []
        self.faults: list[Fault] = []

    async def synchronize(self, part: api.SynchronizeRequest) -> Sequence[Update]:
        self.running += [each.id for each in part.containers if each.name == "main"]
        return ()

    async def create_container(self, pod: api.PodSandbox, container: api.Container) -> Creation:
        self.seen.append(f"{pod.namespace}/{pod.name}/{container.name}")
        assert pod.annotations["berth.test/a"] == "b"
        return self.creation if container.name == "main" else Creation()

    async def happened(self, event: Event, pod: api.PodSandbox, container: api.Container) -> None:
        self.events.append(event)

    async def disconnected(self, fault: Fault) -> None:
        self.faults.append(fault)


@pytest.fixture
def containerd() -> Iterator[ContainerRuntime]:
    if missing := lacking():
        pytest.skip("no real container runtime here; missing:\n" + "\n".join(missing))
    found = ContainerRuntime()
    try:
        found.start()
        yield found
    finally:
        found.close()


@contextlib.asynccontextmanager
async def running(containerd: ContainerRuntime, handler: Handler) -> AsyncIterator[Plugin]:
    plugin = Plugin(PluginSettings("berth", str(containerd.nri), pause_first_s=0.2, pause_most_s=0.5), handler)
    task = asyncio.create_task(plugin.run())
    try:
        await until(lambda: plugin.status.is_ready)
        yield plugin
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.05)


async def process_with(env: str) -> Path:
    """The process that has this in its environment: it has it a moment after the container's start is answered."""
    await until(lambda: len(list(processes_with(env))) == 1)
    [process] = processes_with(env)
    return process


async def test_containers_start_with_what_was_decided(containerd: ContainerRuntime, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    (tmp_path / "shown").write_text(mark)
    adjustment = Adjustment(
        env={"BERTH_TEST": mark, "ASKED": "changed"},
        replaced_env=("ASKED",),
        mounts=(Mount("/shown", str(tmp_path / "shown")),),
        devices=(Device("/dev/berth-test", 1, 3, file_mode=0o666, uid=0, gid=0),),
        resources=Resources(cpus=str(LAST), cpu_quota_us=50_000, cpu_period_us=100_000),
        oom_score_adj=750,
    )
    handler = Decides(Creation(adjustment))
    async with running(containerd, handler) as plugin:
        runtime = plugin.status.runtime
        assert runtime is not None
        assert runtime.name == "containerd"
        pod = await asyncio.to_thread(containerd.run_pod, "web")
        main = await asyncio.to_thread(containerd.run_container, pod, "main", {"ASKED": "given"})
        other = await asyncio.to_thread(containerd.run_container, pod, "other", {"OTHER": mark})
        assert handler.seen == ["work/web/main", "work/web/other"]

        spec = containerd.spec(main)
        assert {f"BERTH_TEST={mark}", "ASKED=changed"} <= set(spec["process"]["env"])
        assert "ASKED=given" not in spec["process"]["env"]
        assert spec["linux"]["resources"]["cpu"]["quota"] == 50_000
        assert spec["linux"]["resources"]["cpu"]["cpus"] == str(LAST)
        assert not any("BERTH_TEST" in each for each in containerd.spec(other)["process"]["env"])

        # What the kernel says of the process itself.
        process = await process_with(f"BERTH_TEST={mark}")
        assert status_of(process, "Cpus_allowed_list") == str(LAST)
        assert (process / "root/shown").read_text() == mark
        assert (process / "oom_score_adj").read_text().strip() == "750"
        device = (process / "root/dev/berth-test").stat()
        assert (os.major(device.st_rdev), os.minor(device.st_rdev)) == (1, 3)

        pushed = await plugin.update_containers([Update(main, Resources(cpus=str(FIRST), cpu_quota_us=-1))])
        assert (pushed.failed, pushed.fault) == ((), None)
        assert status_of(process, "Cpus_allowed_list") == str(FIRST)
        impossible = [Update(other, Resources(cpus="4095")), Update(main, Resources(cpus=str(LAST)))]
        pushed = await plugin.update_containers(impossible)
        assert (pushed.failed, pushed.fault) == ((other,), None)
        assert status_of(process, "Cpus_allowed_list") == str(LAST)

        await asyncio.to_thread(containerd.remove_pod, pod)
        await until(lambda: Event.REMOVE_POD_SANDBOX in handler.events)
        assert {Event.RUN_POD_SANDBOX, Event.START_CONTAINER, Event.REMOVE_CONTAINER} <= set(handler.events)
        assert handler.faults == []


async def test_what_began_without_the_plugin_is_told_to_it(containerd: ContainerRuntime) -> None:
    pod = await asyncio.to_thread(containerd.run_pod, "early")
    main = await asyncio.to_thread(containerd.run_container, pod, "main", {})
    handler = Decides(Creation())
    async with running(containerd, handler):
        assert handler.running == [main]
    await asyncio.to_thread(containerd.remove_pod, pod)


async def test_many_updates_at_once(containerd: ContainerRuntime) -> None:
    """Longer than one frame of containerd's multiplexer: it fails on one that is cut elsewhere."""
    async with running(containerd, Decides(Creation())) as plugin:
        updates = [Update(f"{number:064}", Resources(cpus="0"), ignore_failure=True) for number in range(2000)]
        pushed = await plugin.update_containers(updates)
        assert (pushed.failed, pushed.fault) == ((), None)
        assert plugin.status.is_ready


async def test_a_late_handler_costs_the_plugin_nothing(containerd: ContainerRuntime) -> None:
    class Late(Decides):
        async def create_container(self, pod: api.PodSandbox, container: api.Container) -> Creation:
            await asyncio.sleep(60)
            return Creation()

    handler = Late(Creation())
    async with running(containerd, handler) as plugin:
        pod = await asyncio.to_thread(containerd.run_pod, "late")
        await asyncio.to_thread(containerd.run_container, pod, "main", {})
        assert plugin.status.is_ready
        assert handler.faults == []
        await asyncio.to_thread(containerd.remove_pod, pod)


async def test_containerd_is_killed_and_comes_back(containerd: ContainerRuntime) -> None:
    mark = uuid.uuid4().hex
    handler = Decides(Creation(Adjustment(env={"BERTH_TEST": mark})))
    async with running(containerd, handler) as plugin:
        await asyncio.to_thread(containerd.kill)
        await until(lambda: not plugin.status.is_ready)
        await asyncio.to_thread(containerd.start)
        await until(lambda: plugin.status.is_ready)
        pod = await asyncio.to_thread(containerd.run_pod, "after")
        await asyncio.to_thread(containerd.run_container, pod, "main", {})
        assert handler.seen == ["work/after/main"]
        await process_with(f"BERTH_TEST={mark}")
        await asyncio.to_thread(containerd.remove_pod, pod)
