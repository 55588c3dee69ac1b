"""A node with an agent: a machine made of files, services on it that use its CPU, and best-effort pods to be held.

The agent reads and writes real files below a folder of the run's own; what a kernel would count there is counted by
virtual time. Its faults are drawn apart from those of the others: killed, paused, cut off the bus, and a best-effort
group that kubelet makes anew, held by nothing. slo-manager has its faults with it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from tests.simulation.faults import Fault
from tests.simulation.harness import Harness
from tests.simulation.workload import CPU_MILLI, STRATEGY, WATCHED_NODE

from berth.contracts import buckets
from berth.contracts.codec import decode
from berth.contracts.metrics import NodeMetrics
from berth.contracts.slo import CONFIG_MAP
from berth.contracts.subjects import named_key
from berth.invariants import Counts
from berth.node_qos_enforcer.core.cgroup_paths import KUBE_QOS, qos_dir
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.shell import SERVICE, Agent
from berth.simcluster.store.resource import CONFIGMAPS, NODES
from berth.testing.simulation.nats.message import NANO
from berth.testing.simulation.services import ServiceSpec
from berth.testing.simulation.world import EPOCH_S

NODE_AGENT: Final = SERVICE
SLO_MANAGER: Final = "slo-manager"
NODE: Final = WATCHED_NODE
CORES: Final = CPU_MILLI // 1000
TICK_S: Final = 1.0
LOOK_S: Final = 10.0
BUSY: Final = (0.5, 2.0, 5.0)
"""Cores that the services of the node use, now this and now that."""
CLOSE_US: Final = CORES * 1_000 + 2_000
"""A quota that is off by a percent of the node is not written again; and measuring is exact to some milli-cores."""
LATE_S: Final = 40.0
_MEMORY: Final = "file 7\nanon 9\ninactive_file 3\nactive_file 4\ninactive_anon 0\nactive_anon 9\nunevictable 0"
_GROUPS: Final = "sys/fs/cgroup"
_BEST_EFFORT: Final = f"{_GROUPS}/{qos_dir('systemd', 'BestEffort')}"
_SERVICES: Final = f"{qos_dir('systemd', 'Burstable')}/kubepods-burstable-pod11111111_services.slice"
_USED: Final = (_SERVICES, qos_dir("systemd", "Burstable"), qos_dir("systemd", "Guaranteed"))
_STAT: Final = "proc/stat"
_FOUND: Final = "max 100000\n"


class Machine:
    """Files as a kernel with one control-group hierarchy shows them."""

    def __init__(self, folder: Path, rng: random.Random, end_s: float) -> None:
        self._folder = folder
        self._busy = sorted((rng.uniform(0.0, end_s), rng.choice(BUSY)) for _ in range(4))
        self.busy_cores = BUSY[0]
        self._used_s = 0.0
        self._lost = 0
        self._agents: list[Agent] = []
        self._write("sys/devices/system/cpu/online", f"0-{CORES - 1}")
        self._write("sys/devices/system/node/online", "0")
        self._write("sys/devices/system/node/node0/cpulist", f"0-{CORES - 1}")
        for cpu in range(CORES):
            self._write(f"sys/devices/system/cpu/cpu{cpu}/topology/core_id", f"{cpu // 2}")
            self._write(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", "0")
        self._write("proc/meminfo", "MemTotal: 67108864 kB\nMemFree: 33554432 kB\nMemAvailable: 50331648 kB")
        self._write(f"{_GROUPS}/cgroup.controllers", "cpuset cpu io memory pids")
        for qos in KUBE_QOS:
            self._group(qos_dir("systemd", qos))
        self._group(_SERVICES)
        self._write(_STAT, "")
        self._stat = os.open(folder / _STAT, os.O_WRONLY)
        self._usages = [os.open(folder / _GROUPS / group / "cpu.stat", os.O_WRONLY) for group in _USED]
        self._count()

    def close(self) -> None:
        """No more counting."""
        for file in (self._stat, *self._usages):
            os.close(file)

    def broken(self) -> list[str]:
        """What has gone wrong on nodes and nobody but they can tell."""
        return []

    def spec(self) -> ServiceSpec:
        """Its agent, which enforces."""

        def halves() -> Any:
            # A kernel takes the locks of a process that is killed; here all of them are one process.
            for former in self._agents:
                former.lock.release()
            agent = Agent()
            self._agents = [agent]
            return agent.main, agent.before_bus

        environ = {
            "BERTH_NODE_NAME": NODE,
            "BERTH_PROC_ROOT": str(self._folder / "proc"),
            "BERTH_SYS_ROOT": str(self._folder / "sys"),
            "BERTH_STRATEGY_FILE": str(self._folder / "strategy.json"),
            "BERTH_JOURNAL_FILE": str(self._folder / "journal.json"),
            "BERTH_ENFORCE": "true",
            "BERTH_ENFORCE_INTERVAL_S": "2",
            "BERTH_INTERVAL_S": f"{LOOK_S:g}",
            "BERTH_METRICS_INTERVAL_S": f"{3 * LOOK_S:g}",
        }
        return ServiceSpec(name=NODE_AGENT, settings_type=Settings, halves=halves, environ=environ)

    def live(self, harness: Harness) -> None:
        """Count on, second after second."""
        self._used_s += self.busy_cores * TICK_S
        now_s = harness.world.now
        while self._busy and self._busy[0][0] <= now_s:
            self.busy_cores = self._busy.pop(0)[1]
        self._count()
        harness.world.later(TICK_S, None, self.live, harness)

    def lose_group(self) -> None:
        """Somebody takes the best-effort group away. Its folder stays elsewhere: a kernel gives no number of one to the
        next, as a disk does."""
        group = self._folder / _BEST_EFFORT
        if group.exists():
            self._lost += 1
            group.rename(self._folder / f"lost-{self._lost}")

    def make_group(self) -> None:
        """It is there again, held by nothing."""
        if not (self._folder / _BEST_EFFORT).exists():
            self._group(qos_dir("systemd", "BestEffort"))

    def quota_us(self) -> int | None:
        """What holds the best-effort group; None: nothing."""
        quota = (self._folder / _BEST_EFFORT / "cpu.max").read_text().split()[0]
        return None if quota == "max" else int(quota)

    def is_as_found(self) -> bool:
        """Whether nothing of what kubelet has made of the group is changed."""
        group = self._folder / _BEST_EFFORT
        return ((group / "cpu.max").read_text(), (group / "cpuset.cpus").read_text()) == (_FOUND, "\n")

    def _count(self) -> None:
        """Every second: into files that stay open, with texts that never get shorter."""
        ticks = int(self._used_s * 100)
        os.pwrite(self._stat, b"cpu  %d 0 0 5000 100 0 0 0 0 0\ncpu0 %d 0 0 5000 100 0 0 0 0 0\n" % (ticks, ticks), 0)
        for file in self._usages:
            os.pwrite(file, b"usage_usec %d\nuser_usec 1\n" % int(self._used_s * 1e6), 0)

    def _group(self, path: str) -> None:
        base = f"{_GROUPS}/{path}"
        self._write(f"{base}/cpu.stat", "usage_usec 0\nuser_usec 1")
        self._write(f"{base}/memory.stat", _MEMORY)
        self._write(f"{base}/cpu.max", _FOUND.strip())
        self._write(f"{base}/cpuset.cpus", "")
        self._write(f"{base}/cpuset.cpus.effective", f"0-{CORES - 1}")

    def _write(self, path: str, text: str) -> None:
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")


def faults(rng: random.Random, end_s: float) -> list[Fault]:
    """What befalls the agent and the one that tells it the strategy, in order of time."""
    found: list[Fault] = []
    for _ in range(rng.choice((0, 2, 6))):
        at_s, for_s = rng.uniform(5.0, end_s), rng.choice((0.5, 3.0, 20.0)) * rng.uniform(0.5, 1.5)
        who = rng.choice((NODE_AGENT, SLO_MANAGER))
        found.append(
            rng.choice(
                (
                    Fault(at_s, "kill", who, rng.choice((0, 3, 30))),
                    Fault(at_s, "pause", who, for_s=for_s),
                    Fault(at_s, "cut", who, for_s=for_s),
                    Fault(at_s, "group gone", NODE_AGENT, for_s=for_s),
                )
            )
        )
    return sorted(found)


def unsettled(harness: Harness) -> Iterator[str]:
    """What the node does not do that it should: hold best-effort pods to the strategy, and tell how it is."""
    machine = harness.machine
    if machine is None:
        return
    held_us, wanted_us = machine.quota_us(), _wanted_us(harness, machine)
    if (held_us is None) != (wanted_us is None) or abs((held_us or 0) - (wanted_us or 0)) > CLOSE_US:
        yield f"best-effort pods of {NODE} are held to {held_us} us, not to {wanted_us}"
    stream = harness.nats.streams.get(f"KV_{buckets.METRICS}")
    subject = f"$KV.{buckets.METRICS}.{named_key('node', NODE)}"
    told = [each for each in stream.messages.values() if each.subject == subject] if stream is not None else []
    if not told or told[-1].time / NANO - EPOCH_S < harness.world.now - LATE_S:
        yield f"the agent of {NODE} has not told its figures"
    elif decode(told[-1].data, NodeMetrics).problems:
        yield f"the agent of {NODE} tells of {decode(told[-1].data, NodeMetrics).problems}"


def left_behind(harness: Harness, counts: Counts) -> Iterator[str]:
    """What is not as it was found, though nothing is to hold it (I38)."""
    machine = harness.machine
    if machine is None or _wanted_us(harness, machine) is not None:
        return
    counts.judged("I38")
    if not machine.is_as_found():
        yield f"the best-effort group of {NODE} is not as it was found, though nothing is to hold it"


def _wanted_us(harness: Harness, machine: Machine) -> int | None:
    """By the strategy's own words: what services leave of the node below its threshold."""
    objects = harness.kube.store.state
    if CONFIG_MAP not in objects.of(CONFIGMAPS).items or NODE not in objects.of(NODES).items:
        return None
    text = objects.of(CONFIGMAPS).items[CONFIG_MAP].data["data"][STRATEGY]
    strategy = msgspec.json.decode(text)["clusterStrategy"]
    if not strategy["enable"]:
        return None
    milli = CPU_MILLI * int(strategy["cpuSuppressThresholdPercent"]) // 100 - int(machine.busy_cores * 1000)
    return max(milli * 100, 2_000)
