"""The node agent and a real containerd: containers begin with what their pods were given, through every restart."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from tests.e2e.container_runtime import ContainerRuntime
from tests.e2e.real_agent import (
    CPUS,
    EVERY,
    GPU,
    LSR,
    OWN,
    Agent,
    a_container_runtime,
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
    with a_container_runtime() as found:
        yield found


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
    async with reports(nats_server) as shown:
        await until(lambda: shown.is_connected, "connected", agent)
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
        assert shown.fields() == set()


async def test_a_container_begins_with_its_score_and_its_batch_limits(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent
) -> None:
    sizes = {"requests": {names.BATCH_CPU: "1000"}, "limits": {names.BATCH_CPU: "2000", names.BATCH_MEMORY: "64Mi"}}
    notes = {
        names.ANNOTATION_EXTENDED_RESOURCE_SPEC: json.dumps({"containers": {"main": sizes, "early": sizes}}),
        names.ANNOTATION_OOM_SCORE: "750",
    }
    pod = await run_pod(containerd, "batch", {names.LABEL_QOS: "BE"}, noted=notes)
    early, _ = await begun(containerd, pod, "early")
    agent.start()
    async with reports(nats_server) as shown:
        await until(lambda: shown.is_connected, "connected", agent)
        container, process = await begun(containerd, pod, cpu_quota_us=50_000)
        limits = containerd.spec(container)["linux"]["resources"]
        assert (limits["cpu"]["quota"], limits["cpu"]["shares"], limits["memory"]["limit"]) == (200_000, 1024, 64 << 20)
        assert (process / "oom_score_adj").read_text().strip() == "750"

        # What began without the agent is given its limits by the runtime, which keeps them when kubelet says more.
        def changed() -> bool:
            cpu = containerd.spec(early)["linux"]["resources"]["cpu"]
            return (cpu.get("quota"), cpu.get("shares")) == (200_000, 1024)

        await until(changed, "limits of what runs", agent)
        assert shown.fields() == set()


async def test_two_containers_of_a_pod_have_a_card_each(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent
) -> None:
    """The init container has had both; one that asks for none has none."""
    cards = [GPU, GPU.replace("8c25", "8c26")]
    whole = {names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100"}
    given = {"gpu": [{"minor": minor, "id": card, "resources": whole} for minor, card in enumerate(cards)]}
    shares = {"first": {"gpu": [{"minor": 1}]}, "second": {"gpu": [{"minor": 0}]}}
    init = {"init": {"gpu": [{"minor": 0}, {"minor": 1}]}}
    notes = {
        names.ANNOTATION_DEVICE_ALLOCATED: json.dumps(given),
        names.ANNOTATION_CONTAINER_DEVICES: json.dumps(shares | init),
    }
    agent.start()
    async with reports(nats_server, *cards) as shown:
        await until(lambda: shown.is_connected, "connected", agent)
        pod = await run_pod(containerd, "pair", devices=notes)
        seen = {}
        for name in ("init", "first", "second", "side"):
            _, process = await begun(containerd, pod, name)
            seen[name] = environment(process).get("NVIDIA_VISIBLE_DEVICES")
        assert seen == {"init": ",".join(cards), "first": cards[1], "second": cards[0], "side": None}
        assert shown.fields() == set()


async def test_what_cannot_be_had_is_refused_and_told(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent
) -> None:
    agent.start()
    async with reports(nats_server) as shown:
        await until(lambda: shown.is_connected, "connected", agent)
        wrong = await run_pod(containerd, "wrong", devices=devices(minor=3))
        field = f"pods[work/wrong].metadata.annotations[{names.ANNOTATION_DEVICE_ALLOCATED}].gpu[minor 3].minor"
        with pytest.raises(grpc.RpcError) as refused:
            await begun(containerd, wrong)
        assert f"{field}: is no device of this node" in str(refused.value)
        await until(lambda: shown.fields() == {field}, "a finding", agent)
        bad = await run_pod(containerd, "bad", LSR, cpus={names.ANNOTATION_RESOURCE_STATUS: '{"cpuset":"0-99999999"}'})
        _, process = await begun(containerd, bad)
        assert cpus(process) == EVERY
        cpuset = f"pods[work/bad].metadata.annotations[{names.ANNOTATION_RESOURCE_STATUS}].cpuset"
        await until(lambda: shown.fields() == {field, cpuset}, "another finding", agent)
        assert shown.is_connected
        await asyncio.to_thread(containerd.remove_pod, wrong)
        await asyncio.to_thread(containerd.remove_pod, bad)
        await until(lambda: shown.fields() == set(), "nothing is wrong any more", agent)


async def test_what_began_without_the_agent_is_put_right_and_everything_given_back(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent
) -> None:
    own = await run_pod(containerd, "own", LSR, cpus=own_cpus(), devices=devices())
    plain = await run_pod(containerd, "plain")
    _, early = await begun(containerd, own, cpu_quota_us=50_000)
    _, shared = await begun(containerd, plain)
    assert cpus(early) == cpus(shared) == EVERY
    agent.start()
    async with reports(nats_server) as shown:
        await until(lambda: cpus(early) == {int(OWN)}, "its own CPUs", agent)
        await until(lambda: cpus(shared) == EVERY - {int(OWN)}, "those of the others", agent)
        lacks = "pods[work/own].containers[main]"
        await until(lambda: shown.metrics is not None and shown.fields() == {lacks}, "what it lacks", agent)
        await until(lambda: shown.kinds("own") == {"corrected", "lacking"}, "what its owner is shown", agent)
        await until(agent.inventory.is_file, "what the next agent knows before it has read the bus", agent)

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
    async with reports(nats_server) as shown:
        await until(lambda: shown.is_connected, "connected", agent)
        await asyncio.to_thread(containerd.kill)
        await until(lambda: not shown.is_connected, "the connection is gone", agent)
        await asyncio.to_thread(containerd.start)
        await until(lambda: shown.is_connected, "connected again", agent)
        own = await run_pod(containerd, "own", LSR, cpus=own_cpus())
        _, process = await begun(containerd, own)
        assert cpus(process) == {int(OWN)}


async def test_containerd_and_agent_restart_amid_creations(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent
) -> None:
    """Whichever was away when a container began: it has the CPUs of its pod, and the others have not."""
    agent.start()
    async with reports(nats_server) as shown:
        await until(lambda: shown.is_connected, "connected", agent)
        own, plain = await run_pod(containerd, "own", LSR, cpus=own_cpus()), await run_pod(containerd, "plain")
        created: list[tuple[bool, Path]] = []
        refused = 0
        is_over = False

        async def create() -> None:
            nonlocal refused
            number = 0
            while not is_over:
                number += 1
                for is_own, pod in ((True, own), (False, plain)):
                    try:
                        created.append((is_own, (await begun(containerd, pod, f"c{number}"))[1]))
                    except grpc.RpcError:  # containerd is away
                        refused += 1

        def more_than(count: int) -> Callable[[], bool]:
            return lambda: len(created) >= count + 4

        creating = asyncio.create_task(create())
        for _ in range(2):
            agent.kill()
            await until(more_than(len(created)), "some begin without the agent", agent)
            agent.start()
            await asyncio.to_thread(containerd.restart)
            await until(more_than(len(created)), "some begin with both", agent)
        is_over = True
        await creating
        await until(lambda: shown.is_connected, "connected again", agent)
        living = [(is_own, process) for is_own, process in created if process.exists()]
        assert len(living) == len(created), "no container ends with containerd or with the agent"
        for is_own, process in living:
            wanted = {int(OWN)} if is_own else EVERY - {int(OWN)}
            await until(lambda process=process, wanted=wanted: cpus(process) == wanted, f"{wanted}", agent)
        await until(lambda: "corrected" in shown.kinds("own"), "that some began with other CPUs", agent)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A container that reads devices."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("no C compiler (cc) on this machine: a container that reads cannot be built")
    built = tmp_path_factory.mktemp("reader") / "reader"
    source = Path(__file__).with_name("reader.c")
    done = subprocess.run(
        [compiler, "-static", "-Wall", "-Werror", "-o", built, source], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no static C library on this machine: {done.stderr[-200:]}")
    return built


async def test_a_nic_is_read_in_the_container_that_was_given_it(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent, reader: Path
) -> None:
    """Its device file has the numbers of one that gives zeros; who was not given it cannot even open its like."""
    files = ("/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs7")
    containerd.load("example.test/reader:1", reader)
    agent.start()
    async with reports(nats_server) as shown:
        await until(lambda: shown.is_connected, "connected", agent)
        given, bare = await run_pod(containerd, "given", devices=devices()), await run_pod(containerd, "bare")

        async def read(pod: tuple[str, bytes], name: str) -> list[str]:
            env = {"READ": ":".join(files)}
            await asyncio.to_thread(containerd.run_container, pod, name, env, image="example.test/reader:1")
            log = containerd.home / f"{name}.log"
            await until(lambda: log.exists() and len(log.read_text().splitlines()) == 2, "what it has read", agent)
            return [line.partition(" F ")[2] for line in log.read_text().splitlines()]

        assert await read(given, "given") == [f"{files[0]}: 0 bytes", f"{files[1]}: 4 bytes"]
        assert await read(bare, "bare") == [f"{each}: No such file or directory" for each in files]


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NVIDIA's management library, as a double in C."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("no C compiler (cc) on this machine: the double of NVIDIA's library cannot be built")
    built = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = Path(__file__).parents[1] / "services/worlds/nvml/nvml_double.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", built, source], check=True)
    return built


async def test_gpus_of_the_library_are_reported_and_isolation_only_where_it_works(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent, nvml: Path, tmp_path: Path
) -> None:
    gpus = tmp_path / "gpus"
    gpus.write_text(f"driver 550.54\ngpu {GPU} 0 85899345920 00000000:3B:00.0 -1 NVIDIA H100 80GB HBM3\n")
    library = tmp_path / "host/usr/local/vgpu/libvgpu.so"
    os.mknod(tmp_path / "nvidiactl", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    agent.start(
        LD_LIBRARY_PATH=str(nvml.parent), FAKE_NVML=str(gpus), BERTH_DEVICES="true", BERTH_REPORT_INTERVAL_S="0.3"
    )
    async with reports(nats_server) as shown:
        await until(lambda: shown.is_connected, "connected", agent)
        gpu = await until(lambda: next(iter(shown.report.devices), None) if shown.report else None, "the GPU", agent)
        assert (gpu.kind, gpu.id, gpu.vendor, gpu.healthy) == ("gpu", GPU, "nvidia", True)
        with gpus.open("a") as file:
            file.write(f"xid {GPU} 79\n")
        await until(lambda: shown.report and not shown.report.devices[0].healthy, "it falls ill", agent)
        assert shown.report is not None
        assert shown.report.devices[0].reason == "Xid79"
        await until(lambda: shown.runtime is not None, "its word on isolation", agent)
        assert shown.runtime is not None
        assert (shown.runtime.isolation, "libvgpu.so is not there" in shown.runtime.reason) == ("", True)
        library.parent.mkdir(parents=True)
        library.write_bytes(b"")
        await until(lambda: shown.runtime and shown.runtime.isolation == "HAMi-core", "isolation works", agent)
        await asyncio.to_thread(containerd.kill)
        await until(lambda: shown.runtime and not shown.runtime.isolation, "and no longer", agent)
