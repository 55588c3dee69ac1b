"""The agent on a real bus: what it publishes, follows and answers, and what happens when things go wrong."""

import asyncio
import contextlib
import fcntl
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from berth.bus import Bus, BusSettings
from berth.bus.port import Entry
from berth.contracts import buckets, state
from berth.contracts.codec import decode, encode
from berth.contracts.inventory import NodeInventory
from berth.contracts.metrics import NodeMetrics
from berth.contracts.node_audit import TrailQuestion
from berth.contracts.node_runtime import NodeRuntime
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.contracts.slo import CpuSuppress, NodeSLO
from berth.contracts.subjects import named_key, question_subject
from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.compose import Composed
from berth.node_qos_enforcer.core.strategies.knobs import CPU_QUOTA
from berth.node_qos_enforcer.core.strategies.seam import Ref
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.executor.applying import Applier
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.shell import SERVICE, Agent, _keep_for_ever, _restore_inventory, undo
from berth.node_qos_enforcer.store import InventoryFile, JournalFile
from berth.node_qos_enforcer.views import KnownNode, node_key
from berth.runtime import Context

DEADLINE_S = 30.0
NODE = "node-1.example"
KEY = node_key(NODE)
RUNTIME = named_key("runtime", NODE)


class Latest:
    """What the metrics bucket holds, and how often the agent's own key was written."""

    def __init__(self):
        self.values: dict[str, bytes] = {}
        self.writes = 0

    def reset(self):
        self.values.clear()

    def apply(self, entry):
        self.values[entry.key] = entry.value
        self.writes += entry.key == KEY

    def end(self, sequence):
        pass

    def metrics(self) -> NodeMetrics | None:
        return decode(self.values[KEY], NodeMetrics) if KEY in self.values else None


async def until(holds, what: str):
    """Poll until something holds; its value is returned."""
    deadline = time.monotonic() + DEADLINE_S
    while not (value := holds()):
        assert time.monotonic() < deadline, f"never: {what}"
        await asyncio.sleep(0.01)
    return value


@contextlib.asynccontextmanager
async def running(task_coroutine):
    task = asyncio.create_task(task_coroutine)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def connected(server, service: str = "test"):
    bus = await Bus.connect(BusSettings(url=server.url), service=service)
    try:
        yield bus
    finally:
        await bus.close()


@contextlib.asynccontextmanager
async def agent(server, machine, **settings):
    """A running agent that looks at a fake machine; yields its context."""
    settings = Settings(
        **{
            "node_name": NODE,
            "interval_s": 0.1,
            "metrics_interval_s": 0.0,
            "proc_root": str(machine.root / "proc"),
            "sys_root": str(machine.root / "sys"),
            **settings,
        }
    )
    async with connected(server, SERVICE) as bus:
        ctx = Context(service=SERVICE, settings=settings, bus=bus, instance="i", random=random.Random(1))
        agent = Agent()
        ctx.spawn(agent.before_bus(ctx), name="before-bus")
        ctx.spawn(agent.main(ctx), name="main")
        try:
            yield ctx
        finally:
            for task in list(ctx.supervisor._tasks):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            assert ctx.supervisor.failure is None


@contextlib.asynccontextmanager
async def watched(server):
    """A view of the metrics bucket, and the bus it hangs on."""
    async with connected(server) as bus:
        await bus.ensure()
        latest = Latest()
        async with running(bus.follow(buckets.METRICS, latest).run()):
            yield bus, latest


async def test_first_message_comes_at_once_and_the_next_knows_usage(nats_server, modern_machine):
    modern_machine.kubelet()
    modern_machine.pod("p", "Burstable", cpu_ns=1_000, memory=7)
    async with watched(nats_server) as (_, latest), agent(nats_server, modern_machine, interval_s=60.0) as ctx:
        first = await until(latest.metrics, "a first message")
        assert first.node == NODE
        assert first.interval_s == 0.0
        assert first.memory_total_bytes == 16 << 30
        assert first.cpu_pressure.some_avg10 == 1.5
        assert ctx.health.ready
        second = await until(lambda: (got := latest.metrics()).interval_s and got, "a second look after a second")
        assert second.by_qos.keys() == {"guaranteed", "burstable", "besteffort"}
        assert [pod.uid for pod in second.pods] == ["p"]
        assert second.suppress_cpu_milli == 8_000 * 65 // 100


async def test_state_of_the_node_changes_the_target(nats_server, modern_machine):
    modern_machine.kubelet()
    modern_machine.pod("p", "Burstable", cpu_ns=1_000, memory=7)
    async with watched(nats_server) as (bus, latest), agent(nats_server, modern_machine):
        await until(lambda: (got := latest.metrics()) and got.suppress_cpu_milli == 5_200, "the machine's own CPUs")
        seen = state.Node(name=NODE, uid="u", version=1, capacity={"cpu": 6_000}, allocatable={"cpu": 5_000})
        watcher = bus.owned(buckets.STATE)
        watcher.put(KEY, encode(seen))
        watcher.put("node.other", encode(seen))
        await until(lambda: latest.metrics().suppress_cpu_milli == 3_900 - 1_000, "the cluster's figures")
        watcher.delete(KEY)
        await until(lambda: latest.metrics().suppress_cpu_milli == 5_200, "the machine's own CPUs again")


async def test_entries_of_other_nodes_are_left_alone(nats_server, modern_machine, caplog):
    async with watched(nats_server) as (bus, latest):
        others = bus.owned(buckets.METRICS, keys="node.other")
        others.put("node.other", b"before")
        await others.drain()
        async with agent(nats_server, modern_machine):
            await until(lambda: latest.writes >= 3, "messages")
            others.put("node.other", b"theirs")
            await others.drain()
            enough = latest.writes + 3
            await until(lambda: latest.writes >= enough, "more messages")
        assert latest.values["node.other"] == b"theirs"
    assert "somebody else wrote" not in caplog.text


async def test_somebody_else_on_the_key_is_noticed_and_overwritten(nats_server, modern_machine):
    async with watched(nats_server) as (bus, latest), agent(nats_server, modern_machine):
        await until(lambda: latest.writes >= 2, "messages")
        impostor = bus.owned(buckets.METRICS)
        await impostor.ready()
        deadline = time.monotonic() + DEADLINE_S
        facts = {"conflicts": 0}
        while not facts["conflicts"]:
            assert time.monotonic() < deadline
            impostor.put(KEY, f"theirs {time.monotonic()}".encode())
            await impostor.drain()
            answer = await bus.ask(question_subject(SERVICE, "status"), encode(StatusQuestion()))
            facts = decode(answer, StatusAnswer).facts
        await until(lambda: latest.values[KEY].startswith(b"{") and latest.metrics().node == NODE, "own message again")


async def test_status_tells_how_the_target_came_about(nats_server, modern_machine):
    modern_machine.kubelet()
    modern_machine.pod("p", "Burstable", cpu_ns=1_000, memory=7)
    async with watched(nats_server) as (bus, latest), agent(nats_server, modern_machine):
        await until(lambda: (got := latest.metrics()) and got.interval_s, "usage")
        answers = await bus.ask_all(question_subject(SERVICE, "status"), encode(StatusQuestion()))
        (answer,) = [decode(data, StatusAnswer) for data in answers]
        assert (answer.service, answer.instance, answer.active, answer.ready) == (SERVICE, "i", True, True)
        assert answer.facts["node"] == NODE
        assert answer.facts["cgroup_driver"] == "systemd"
        assert answer.facts["suppress_target_milli"] == 5_200
        assert answer.facts["best_effort_next_quota_us"] == "unchanged"
        assert answer.facts["best_effort_policy"] == "off"
        for verb, kind in (("status", StatusQuestion), ("trail", TrailQuestion)):
            for name, count in ((NODE, 1), ("another", 0)):
                asked = encode(kind(**{"node" if kind is StatusQuestion else "name": name}))
                answers = await bus.ask_all(question_subject(SERVICE, verb), asked, wait_s=0.3)
                assert len(answers) == count, (verb, name)


def rule(**told) -> bytes:
    return encode(NodeSLO(node=NODE, cpu_suppress=CpuSuppress(**{"enabled": True, "policy": "cfsQuota", **told})))


async def test_the_published_strategy_counts_and_nothing_is_written_unless_told(nats_server, modern_machine, tmp_path):
    modern_machine.kubelet()
    modern_machine.pod("p", "Burstable", cpu_ns=1_000, memory=7)
    knob = modern_machine.root / "sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/cpu.max"
    async with watched(nats_server) as (bus, latest), agent(nats_server, modern_machine):
        await until(lambda: (got := latest.metrics()) and got.suppress_cpu_milli == 5_200, "the protocol's default")
        slo = bus.owned(buckets.SLO)
        slo.put(KEY, rule(threshold_percent=50))
        got = await until(lambda: (got := latest.metrics()).suppress_cpu_milli == 4_000 and got, "the strategy")
        assert (got.best_effort.policy, got.best_effort.enforced) == ("cfsQuota", False)
        assert (got.best_effort.quota_us, got.best_effort.next_quota_us) == (-1, 400_000)
        slo.put(KEY, rule(threshold_percent=500))
        got = await until(lambda: (got := latest.metrics()).problems and got, "a strategy of no use is named")
        assert (got.problems[0].field, got.suppress_cpu_milli) == (f"slo.{KEY}", 4_000)
        slo.delete(KEY)
        await until(lambda: (got := latest.metrics()).suppress_cpu_milli == 5_200 and not got.problems, "withdrawn")
    assert knob.read_text() == "max 100000\n"


async def test_an_agent_that_enforces_writes_keeps_and_lets_go(nats_server, modern_machine, tmp_path):
    modern_machine.kubelet()
    modern_machine.pod("p", "Burstable", cpu_ns=1_000, memory=7)
    knob = modern_machine.root / "sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/cpu.max"
    told = {"enforce": True, "enforce_interval_s": 0.1, "strategy_file": str(tmp_path / "strategy.json")}
    async with watched(nats_server) as (bus, latest):
        async with agent(nats_server, modern_machine, **told):
            await until(lambda: (got := latest.metrics()) and got.interval_s, "figures")
            assert knob.read_text() == "max 100000\n", "no strategy was told"
            bus.owned(buckets.SLO).put(KEY, rule(threshold_percent=50))
            await until(lambda: knob.read_text() == "400000 100000\n", "the quota")
            await until(lambda: latest.metrics().best_effort.enforced, "it is told")
            await until((tmp_path / "strategy.json").exists, "the strategy is kept")
            knob.unlink()
            knob.mkdir()
            await until(lambda: "best_effort.quota" in [each.field for each in latest.metrics().problems], "a problem")
            knob.rmdir()
            knob.write_text("max 100000\n")
            await until(lambda: knob.read_text() == "400000 100000\n", "the quota again")
        assert knob.read_text() == "max 100000\n", "an agent that ends lets go"


async def test_an_agent_that_ends_leaves_all_to_a_successor_that_waits(nats_server, modern_machine, tmp_path):
    modern_machine.kubelet()
    knob = killed_agent(modern_machine, tmp_path)
    told = {**holds(tmp_path), "enforce": True}
    async with watched(nats_server) as (_, latest), agent(nats_server, modern_machine, **told):
        await until(lambda: (got := latest.metrics()) and got.interval_s, "figures")
        waits = os.open(tmp_path / "journal.json.next", os.O_RDWR | os.O_CREAT)
        fcntl.flock(waits, fcntl.LOCK_EX)
    os.close(waits)
    assert knob.read_text() == "400000 100000\n", "the next one goes on where it stopped"


def holds(agent) -> dict[str, object]:
    """Settings of an agent with a journal, where that of a killed one lies."""
    return {"journal_file": str(agent / "journal.json"), "strategy_file": str(agent / "strategy.json")}


def killed_agent(machine, folder) -> Path:
    """What a process leaves that held the best-effort group: the knob that it wrote to."""
    executor = Executor(DiskTree(machine.root / "sys/fs/cgroup"), JournalFile(str(folder / "journal.json")))
    wanted = Composed({Ref("kubepods.slice/kubepods-besteffort.slice", CPU_QUOTA): "400000"})
    layout = cgroups.detect_layout(executor.tree)
    applied = Applier(executor).apply(layout, wanted, asked=lambda _: None, undecided=frozenset(), now_s=0.0)
    assert applied.problems == ()
    knob = machine.root / "sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/cpu.max"
    assert knob.read_text() == "400000 100000\n"
    return knob


@pytest.mark.parametrize("told", [{}, {"give_back": True}, {"give_back": True, "enforce": True}])
async def test_what_a_killed_agent_held_is_let_go(nats_server, modern_machine, tmp_path, told):
    modern_machine.kubelet()
    knob = killed_agent(modern_machine, tmp_path)
    async with watched(nats_server) as (bus, latest), agent(nats_server, modern_machine, **holds(tmp_path), **told):
        bus.owned(buckets.SLO).put(KEY, rule(threshold_percent=50))
        await until(lambda: knob.read_text() == "max 100000\n", "it is let go")
        await until(
            lambda: (got := latest.metrics()) and got.interval_s and got.best_effort.quota_us == -1, "it is told"
        )
        assert not latest.metrics().best_effort.enforced
    assert knob.read_text() == "max 100000\n"


async def test_what_a_killed_agent_held_is_held_on(nats_server, modern_machine, tmp_path):
    modern_machine.kubelet()
    knob = killed_agent(modern_machine, tmp_path)
    async with watched(nats_server) as (_, latest):
        async with agent(nats_server, modern_machine, **holds(tmp_path), enforce=True):
            await until(lambda: (got := latest.metrics()) and got.interval_s, "figures")
            assert knob.read_text() == "400000 100000\n", "no strategy is known yet"
        assert knob.read_text() == "max 100000\n", "an agent that ends lets go, whoever began"


async def test_what_cannot_be_given_back_is_told(nats_server, modern_machine, tmp_path):
    modern_machine.kubelet()
    knob = killed_agent(modern_machine, tmp_path)
    (modern_machine.root / "elsewhere").write_text("400000 100000\n")
    knob.unlink()
    knob.symlink_to(modern_machine.root / "elsewhere")
    told = {**holds(tmp_path), "give_back": True}
    async with watched(nats_server) as (_, latest), agent(nats_server, modern_machine, **told):
        await until(
            lambda: (got := latest.metrics()) and any(p.field.endswith("/cpu.max") for p in got.problems), "told"
        )


async def test_a_torn_journal_is_told(nats_server, modern_machine, tmp_path):
    modern_machine.kubelet()
    (tmp_path / "journal.json").write_text("{")
    async with watched(nats_server) as (_, latest), agent(nats_server, modern_machine, **holds(tmp_path)):
        await until(lambda: (got := latest.metrics()) and "journal" in [each.field for each in got.problems], "told")


async def test_how_it_stands_with_the_runtime_is_published_repeated_and_withdrawn(
    nats_server, modern_machine, tmp_path
):
    def said(latest) -> NodeRuntime | None:
        value = latest.values.get(RUNTIME)
        return decode(value, NodeRuntime) if value else None

    async with watched(nats_server) as (_, latest):
        async with agent(nats_server, modern_machine, nri_socket=str(tmp_path / "nri.sock")):
            first = await until(lambda: said(latest), "what it says")
            assert (first.node, first.isolation, first.findings) == (NODE, "", [])
            assert first.reason == "the container runtime is not connected"
        async with agent(nats_server, modern_machine):
            await until(lambda: latest.values.get(RUNTIME) == b"", "an agent that is no plugin takes it back")
            deleted = dict(latest.values)
        async with agent(nats_server, modern_machine, devices=True) as ctx:
            await until(lambda: ctx.health.ready, "another that is none")
            assert latest.values[RUNTIME] == deleted[RUNTIME]


async def test_the_inventory_is_kept_for_an_agent_that_reads_a_bus_without_one(nats_server, modern_machine, tmp_path):
    file = tmp_path / "inventory.json"
    settings = {"nri_socket": str(tmp_path / "nri.sock"), "inventory_file": str(file)}
    told = NodeInventory(node=NODE, version=1, gpu_vendor="hygon")
    async with watched(nats_server) as (bus, _), agent(nats_server, modern_machine, **settings):
        bus.owned(buckets.INVENTORY).put(KEY, encode(told))
        await until(lambda: file.exists() and decode(file.read_bytes(), NodeInventory) == told, "what is kept")
    inside = Agent()._shared(Settings(node_name=NODE, **settings)).inside
    _restore_inventory(cast("Any", None), InventoryFile(str(file), NODE), inside)
    inside.inventory.end(0)
    assert inside.facts.inventory == told, "a bucket that was lost says nothing"
    inside.inventory.apply(Entry(KEY, b"", True, 1, 0, False, None))
    assert inside.facts.inventory is None


async def test_who_asks_by_pod_is_served_where_it_is_set(nats_server, modern_machine, tmp_path):
    settings = {"vgpu_monitor": True, "host_root": str(tmp_path), "podresources_proxy": str(tmp_path / "p.sock")}
    (tmp_path / "usr/local/vgpu/containers/uid_main").mkdir(parents=True)
    (tmp_path / "usr/local/vgpu/containers/uid_main/x.cache").write_bytes(b"torn")
    async with watched(nats_server) as (_, latest), agent(nats_server, modern_machine, **settings):
        fields = {"podresources_proxy", "uid_main/x.cache"}
        await until(
            lambda: (got := latest.metrics()) and fields <= {each.field for each in got.problems},
            "both run, and say what is wrong",
        )


async def test_a_strategy_is_kept_once_and_again_until_it_could_be():
    saved: list[NodeSLO | None] = []

    class Full:
        def save(self, strategy: NodeSLO | None) -> None:
            saved.append(strategy)
            if len(saved) == 2:
                raise OSError("no space")

    first, second = NodeSLO(node=NODE, spec={"a": {}}), NodeSLO(node=NODE, spec={"b": {}})
    told = iter([first, first, second, second, second, None, None])
    ticks = asyncio.Event()
    known = KnownNode(NODE)
    known.strategies.source = "bus"

    class Ticking:
        now = monotonic = staticmethod(time.monotonic)

        async def sleep(self, seconds: float) -> None:
            try:
                known.strategies.message = next(told)
            except StopIteration:
                ticks.set()
                await asyncio.Event().wait()

    warned: list[str] = []
    ctx = SimpleNamespace(
        clock=Ticking(),
        settings=SimpleNamespace(strategy_file="s"),
        log=SimpleNamespace(warning=lambda what, **_: warned.append(what)),
    )
    keeping = asyncio.create_task(_keep_for_ever(cast("Any", ctx), cast("Any", Full()), known))
    await asyncio.wait_for(ticks.wait(), DEADLINE_S)
    keeping.cancel()
    assert saved == [first, second, second, None]
    assert warned == ["cannot keep the strategy"]


async def test_a_strategy_file_of_no_use_stops_nothing(nats_server, modern_machine, tmp_path):
    modern_machine.kubelet()
    file = tmp_path / "strategy.json"
    file.write_text("{")
    async with (
        watched(nats_server) as (_, latest),
        agent(nats_server, modern_machine, enforce=True, strategy_file=str(file)),
    ):
        await until(lambda: (got := latest.metrics()) and got.interval_s, "figures")
    assert file.read_text() == "{"


async def test_measuring_goes_on_while_the_bus_is_away(nats_server, modern_machine):
    async with watched(nats_server) as (_, latest), agent(nats_server, modern_machine) as ctx:
        await until(lambda: latest.writes >= 2, "messages")
        nats_server.kill()
        before = latest.metrics().measured_at
        modern_machine.node(ticks=1_000, available=1 << 30)
        await until(lambda: ctx.clock.now() > before + 1.0, "a second to pass")
        nats_server.start()
        got = await until(
            lambda: (got := latest.metrics()) and got.measured_at > before + 1.0 and got,
            "messages once the bus is back",
        )
        assert got.node_usage.memory_bytes == 15 << 30
        assert got.interval_s < 1.0


async def test_a_bus_that_lost_everything_gets_the_last_look_again(nats_server, modern_machine):
    async with watched(nats_server) as (bus, latest), agent(nats_server, modern_machine, interval_s=3_600.0):
        await until(lambda: (got := latest.metrics()) and got.interval_s, "the second look; the next is an hour away")
        before = latest.metrics()
        nats_server.kill()
        empty = nats_server.home / "empty"
        empty.mkdir()
        nats_server.restore_store(empty)
        nats_server.start()
        await bus.ensure()
        await until(lambda: KEY in latest.values and latest.writes >= 3, "the last look on an empty bus")
        assert latest.metrics() == before


async def test_torn_files_are_problems_and_nothing_ends(nats_server, modern_machine):
    async with watched(nats_server) as (_, latest), agent(nats_server, modern_machine):
        await until(lambda: latest.writes >= 1, "a message")
        modern_machine.write("proc/stat", "cpu 1")
        modern_machine.write("proc/meminfo", "")
        got = await until(
            lambda: (got := latest.metrics()) and len(got.problems) >= 2 and not got.interval_s and got, "problems"
        )
        assert {problem.field for problem in got.problems} >= {"node_usage.cpu", "node_usage.memory"}
        modern_machine.node(ticks=2_000)
        await until(lambda: (got := latest.metrics()).interval_s and not got.problems, "a clean message again")


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return answer.read().decode()


@pytest.mark.skipif(not os.path.exists("/proc/stat"), reason="not Linux")
async def test_the_process_measures_this_machine(nats_server, tmp_path: Path):
    environ = os.environ | {
        "BERTH_NATS_URL": nats_server.url,
        "BERTH_PORT_FILE": str(tmp_path / "port"),
        "BERTH_INTERVAL_S": "0.5",
        "BERTH_EXIT_WITH_PARENT": "true",
        "NODE_NAME": NODE,
    }
    async with watched(nats_server) as (_, latest):
        process = subprocess.Popen([sys.executable, "-m", "berth.node_qos_enforcer"], env=environ)
        try:
            got = await until(lambda: (got := latest.metrics()) and got.interval_s and got, "usage of this machine")
            assert got.cpu_total_milli == 1_000 * os.sysconf("SC_NPROCESSORS_ONLN")
            assert 0 < got.node_usage.memory_bytes < got.memory_total_bytes
            assert 0 <= got.node_usage.cpu_milli <= got.cpu_total_milli * 2
            port = int((tmp_path / "port").read_text())
            figures = await asyncio.to_thread(get, port, "/metrics")
            assert 'berth_node_rounds_total{outcome="measured"}' in figures
            assert "berth_node_memory_used_bytes" in figures
            await asyncio.to_thread(get, port, "/readyz")
        finally:
            process.send_signal(signal.SIGTERM)
            code = await asyncio.to_thread(process.wait, 20)
        assert code == 0


def test_nothing_is_given_back_beside_an_agent_that_would_write_it_again(modern_machine, tmp_path, capsys):
    modern_machine.kubelet()
    knob = killed_agent(modern_machine, tmp_path)
    environ = {
        "BERTH_PROC_ROOT": str(modern_machine.root / "proc"),
        "BERTH_SYS_ROOT": str(modern_machine.root / "sys"),
        "BERTH_JOURNAL_FILE": str(tmp_path / "journal.json"),
    }
    for ending in ("lock", "next"):  # one that writes, or one that waits to be it
        with (tmp_path / f"journal.json.{ending}").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert undo(environ) == 2
        assert knob.read_text() == "400000 100000\n"
        assert "BERTH_GIVE_BACK" in capsys.readouterr().out
    assert undo(environ) == 0
    assert knob.read_text() == "max 100000\n"
    assert undo({**environ, "BERTH_JOURNAL_FILE": str(tmp_path / "absent/journal.json")}) == 1


def test_everything_is_given_back_without_a_bus(modern_machine, tmp_path, capsys):
    modern_machine.kubelet()
    knob = killed_agent(modern_machine, tmp_path)
    environ = {
        "BERTH_PROC_ROOT": str(modern_machine.root / "proc"),
        "BERTH_SYS_ROOT": str(modern_machine.root / "sys"),
        "BERTH_JOURNAL_FILE": str(tmp_path / "journal.json"),
    }
    assert undo(environ) == 0
    assert knob.read_text() == "max 100000\n"
    assert capsys.readouterr().out == ""
