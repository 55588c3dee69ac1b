"""The node agent and a real containerd: containers begin with what their pods were given, through every restart."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from tests.e2e.container_runtime import ContainerRuntime, lacking
from tests.e2e.real_agent import (
    CPUS,
    EVERY,
    GPU,
    LSR,
    OWN,
    Agent,
    begun,
    cpus,
    devices,
    environment,
    own_cpus,
    reports,
    run_pod,
    until,
)

from berth.contracts import names
from berth.testing.nats_server import NatsServer

pytestmark = pytest.mark.e2e


@pytest.fixture
def containerd() -> Iterator[ContainerRuntime]:
    if missing := lacking():
        pytest.skip("no real container runtime here; missing:\n" + "\n".join(missing))
    if len(CPUS) < 2:
        pytest.skip("two CPUs: one for a pod of its own, one for the others")
    found = ContainerRuntime()
    try:
        found.start()
        yield found
    finally:
        found.close()


@pytest.fixture
def agent(containerd: ContainerRuntime, nats_server: NatsServer, tmp_path: Path) -> Iterator[Agent]:
    found = Agent(tmp_path, containerd.nri, nats_server.url)
    try:
        yield found
    finally:
        found.kill()


async def test_containers_have_what_their_pods_were_given(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent
) -> None:
    agent.start()
    async with reports(nats_server) as told:
        await until(lambda: told.is_connected, "connected", agent)
        plain = await run_pod(containerd, "plain")
        _, shared = await begun(containerd, plain)
        assert cpus(shared) == EVERY

        own = await run_pod(containerd, "own", LSR, cpus=own_cpus(), devices=devices())
        await until(lambda: cpus(shared) == EVERY - {int(OWN)}, "others leave its CPUs before it begins", agent)
        container, process = await begun(containerd, own, cpu_quota_us=50_000)
        assert cpus(process) == {int(OWN)}
        spec = containerd.spec(container)
        assert spec["linux"]["resources"]["cpu"]["quota"] == -1
        assert environment(process)["NVIDIA_VISIBLE_DEVICES"] == GPU
        for name, minor in (("rdma_cm", 3), ("uverbs7", 5)):
            device = (process / "root/dev/infiniband" / name).stat()
            assert stat.S_ISCHR(device.st_mode)
            assert (os.major(device.st_rdev), os.minor(device.st_rdev)) == (1, minor)
            assert stat.S_IMODE(device.st_mode) == 0o666
        late, _ = await begun(containerd, plain, "late")
        assert containerd.spec(late)["linux"]["resources"]["cpu"]["cpus"] == str(CPUS[0])

        await asyncio.to_thread(containerd.remove_pod, own)
        await until(lambda: cpus(shared) == EVERY, "its CPUs are everybody's again", agent)
        assert told.fields() == set()


async def test_what_cannot_be_had_is_refused_and_told(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent
) -> None:
    agent.start()
    async with reports(nats_server) as told:
        await until(lambda: told.is_connected, "connected", agent)
        wrong = await run_pod(containerd, "wrong", devices=devices(minor=3))
        field = f"pods[work/wrong].metadata.annotations[{names.ANNOTATION_DEVICE_ALLOCATED}].gpu[minor 3].minor"
        with pytest.raises(grpc.RpcError) as refused:
            await begun(containerd, wrong)
        assert f"{field}: is no device of this node" in str(refused.value)
        await until(lambda: told.fields() == {field}, "a finding", agent)
        bad = await run_pod(containerd, "bad", LSR, cpus={names.ANNOTATION_RESOURCE_STATUS: '{"cpuset":"0-99999999"}'})
        _, process = await begun(containerd, bad)
        assert cpus(process) == EVERY
        cpuset = f"pods[work/bad].metadata.annotations[{names.ANNOTATION_RESOURCE_STATUS}].cpuset"
        await until(lambda: told.fields() == {field, cpuset}, "another finding", agent)
        assert told.is_connected
        await asyncio.to_thread(containerd.remove_pod, wrong)
        await asyncio.to_thread(containerd.remove_pod, bad)
        await until(lambda: told.fields() == set(), "nothing is wrong any more", agent)


async def test_what_began_without_the_agent_is_put_right_and_everything_given_back(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent
) -> None:
    own = await run_pod(containerd, "own", LSR, cpus=own_cpus(), devices=devices())
    plain = await run_pod(containerd, "plain")
    _, early = await begun(containerd, own, cpu_quota_us=50_000)
    _, shared = await begun(containerd, plain)
    assert cpus(early) == cpus(shared) == EVERY
    agent.start()
    async with reports(nats_server) as told:
        await until(lambda: cpus(early) == {int(OWN)}, "its own CPUs", agent)
        await until(lambda: cpus(shared) == EVERY - {int(OWN)}, "those of the others", agent)
        lacks = "pods[work/own].containers[main]"
        await until(lambda: told.metrics is not None and told.fields() == {lacks}, "what it lacks", agent)

        agent.kill()
        assert cpus(early) == {int(OWN)}, "an agent that is killed leaves everything as it is"
        other = await run_pod(containerd, "other")
        _, unseen = await begun(containerd, other)
        assert cpus(unseen) == EVERY
        agent.start()
        await until(lambda: cpus(unseen) == EVERY - {int(OWN)}, "what began meanwhile is put right", agent)
        again, known = await begun(containerd, own, "again", cpu_quota_us=50_000)
        assert cpus(known) == {int(OWN)}

        agent.kill()
        agent.start(BERTH_GIVE_BACK="true")
        for process in (early, shared, unseen, known):
            await until(lambda process=process: cpus(process) == EVERY, "it is given back", agent)
        for root, file, before in (("cpu", "cpu.cfs_quota_us", "50000"), ("", "cpu.max", "50000 100000")):
            quota = Path("/sys/fs/cgroup") / root / containerd.group / again / file
            if quota.parent.is_dir():
                await until(lambda quota=quota, text=before: quota.read_text().strip() == text, "its quota", agent)
                break
        else:
            raise AssertionError("its group is nowhere")


async def test_containerd_is_killed_and_comes_back(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent
) -> None:
    agent.start()
    async with reports(nats_server) as told:
        await until(lambda: told.is_connected, "connected", agent)
        await asyncio.to_thread(containerd.kill)
        await until(lambda: not told.is_connected, "the connection is gone", agent)
        await asyncio.to_thread(containerd.start)
        await until(lambda: told.is_connected, "connected again", agent)
        own = await run_pod(containerd, "own", LSR, cpus=own_cpus())
        _, process = await begun(containerd, own)
        assert cpus(process) == {int(OWN)}
