"""A node made of files: control groups of version 2 as kubelet and containerd lay them out, filled as by the kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

from berth.contracts import names
from berth.contracts.slo import ContainerSize, NodePod
from berth.contracts.state import Node
from berth.node_qos_enforcer.core.cgroup_paths import KubeQos, pod_dir, qos_dir
from berth.node_qos_enforcer.core.inside.running import ContainerNow, PodNow
from berth.node_qos_enforcer.core.inside.seen import Limits, PodSeen
from berth.node_qos_enforcer.doers.network import Output
from berth.nri import api_pb2 as api
from berth.rules.cpus.resource_status import read_resource_status

GIB = 1 << 30
CPUS = 64
NODE = "node-1"
PRESSURE = "some avg10=1.50 avg60=1.00 avg300=0.50 total=7000\nfull avg10=0.25 avg60=0.10 avg300=0.05 total=3000\n"
MEMORY_STAT = (
    *("anon", "file", "kernel", "kernel_stack", "pagetables", "sec_pagetables", "percpu", "sock", "vmalloc", "shmem"),
    *("zswap", "zswapped", "file_mapped", "file_dirty", "file_writeback", "swapcached", "anon_thp", "file_thp"),
    *("shmem_thp", "inactive_anon", "active_anon", "inactive_file", "active_file", "unevictable"),
    *("slab_reclaimable", "slab_unreclaimable", "slab", "workingset_refault_anon", "workingset_refault_file"),
    *("workingset_activate_anon", "workingset_activate_file", "workingset_restore_anon", "workingset_restore_file"),
    *("workingset_nodereclaim", "pgscan", "pgsteal", "pgscan_kswapd", "pgscan_direct", "pgscan_khugepaged"),
    *("pgsteal_kswapd", "pgsteal_direct", "pgsteal_khugepaged", "pgfault", "pgmajfault", "pgrefill", "pgactivate"),
    *("pgdeactivate", "pglazyfree", "pglazyfreed", "zswpin", "zswpout", "thp_fault_alloc", "thp_collapse_alloc"),
)
DISK = {"name": "/dev/vda", "type": "device", "ioCfg": {"readIOPS": 99}}
SPEC = {
    "resourceUsedThresholdWithBE": {
        "enable": True,
        "cpuSuppressThresholdPercent": 65,
        "cpuSuppressPolicy": "cfsQuota",
        "memoryEvictThresholdPercent": 95,
        "cpuEvictBESatisfactionLowerPercent": 30,
        "cpuEvictBESatisfactionUpperPercent": 50,
        "cpuEvictTimeWindowSeconds": 300,
        "cpuEvictThresholdPercent": 95,
        "evictEnabledPriorityThreshold": 5999,
    },
    "cpuBurstStrategy": {"policy": "auto"},
    "systemStrategy": {"minFreeKbytesFactor": 100, "watermarkScaleFactor": 150, "totalNetworkBandwidth": "10G"},
    "resourceQOSStrategy": {
        "policies": {"cpuPolicy": "groupIdentity", "netQOSPolicy": "terway-qos"},
        **{
            name: {
                "cpuQOS": {"enable": True},
                "memoryQOS": {"enable": True, "minLimitPercent": 10, "lowLimitPercent": 20, "throttlingPercent": 80},
                "resctrlQOS": {"enable": True, "catRangeEndPercent": 80},
                "networkQOS": {"enable": True, "egressLimit": 50, "ingressLimit": 50},
                "blkioQOS": {
                    "enable": True,
                    "blocks": [DISK],
                },
            }
            for name in ("lsrClass", "lsClass", "beClass")
        },
    },
    "extensions": {"nodeMemoryCollectPolicy": "usageWithHotPageCache"},
}
"""Every strategy at once, but core scheduling, which excludes identities."""


class NodeOfFiles:
    """`pods` pods of `containers` containers each: a third of them of class BE, which ask for batch resources."""

    def __init__(self, root: Path, pods: int, containers: int) -> None:
        """Write all files once."""
        self.root = root
        self.cgroup = root / "sys/fs/cgroup"
        self._seconds = 0
        self.uids = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(pods)]
        self.containers = containers
        self._machine()
        for group in self._groups():
            self._fill(group)
        self.advance()

    def told(self) -> dict[str, NodePod]:
        """What SLO says of the pods."""
        return {uid: self._told(number, uid) for number, uid in enumerate(self.uids)}

    def running(self) -> dict[str, PodNow]:
        """The pods as the runtime has them."""
        found = {}
        for number, uid in enumerate(self.uids):
            told = self._told(number, uid)
            seen = PodSeen(
                id=f"s{number}",
                uid=uid,
                namespace=told.namespace,
                name=told.name,
                labels=told.labels,
                annotations=told.annotations,
                cgroup_parent=f"/{self._pod(number)}",
                status=read_resource_status(told.annotations),
                ips=(f"10.0.{number // 250}.{number % 250}",),
            )
            limits = Limits(quota_us=100_000)
            listed = (ContainerNow(self._id(number, each), f"c{each}", limits, True) for each in range(self.containers))
            found[uid] = PodNow(seen, tuple(listed))
        return found

    def listed(self) -> api.SynchronizeRequest:
        """The same as a runtime tells it."""
        pods, containers = [], []
        for number, (uid, now) in enumerate(self.running().items()):
            pods.append(
                api.PodSandbox(
                    id=now.pod.id,
                    name=now.pod.name,
                    namespace=now.pod.namespace,
                    uid=uid,
                    labels=dict(now.pod.labels),
                    annotations=dict(now.pod.annotations),
                    linux=api.LinuxPodSandbox(cgroup_parent=now.pod.cgroup_parent),
                    ips=now.pod.ips,
                    pid=1000 + number,
                )
            )
            cpu = api.LinuxCPU(quota=api.OptionalInt64(value=100_000), shares=api.OptionalUInt64(value=512))
            containers += [
                api.Container(
                    id=each.id,
                    pod_sandbox_id=now.pod.id,
                    name=each.name,
                    state=api.CONTAINER_RUNNING,
                    linux=api.LinuxContainer(resources=api.LinuxResources(cpu=cpu)),
                )
                for each in now.containers
            ]
        return api.SynchronizeRequest(pods=pods, containers=containers)

    def state(self) -> Node:
        """The node as the cluster has it."""
        amounts = {names.CPU: CPUS * 1000, names.MEMORY: 256 * GIB, names.PODS: 250}
        return Node(name=NODE, uid=NODE, version=1, ready=True, capacity=amounts, allocatable=amounts)

    @staticmethod
    def tools(command: Sequence[str], text: str) -> Output:
        """What the tools say that know the disks."""
        return Output(0, 'NAME="vda" TYPE="disk" MAJ:MIN="253:0"\n') if command[0] == "lsblk" else Output(127)

    def advance(self) -> None:
        """A second passes: the counters of every group move, as do the node's."""
        self._seconds += 1
        ticks = 20 * 100 * self._seconds
        self._write("proc/stat", f"cpu  {ticks} 0 0 5000 100 0 0 0 0 0\n" + self._per_cpu)
        for weight, group in enumerate(self._groups()):
            used = self._seconds * 50_000 + weight
            periods, throttled = self._seconds * 10, self._seconds * (weight % 2)
            self._write(
                f"sys/fs/cgroup/{group}/cpu.stat",
                f"usage_usec {used}\nuser_usec {used}\nsystem_usec 0\ncore_sched.force_idle_usec 0\n"
                f"nr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {throttled}\nnr_bursts 0\n"
                "burst_usec 0\n",
            )

    def _machine(self) -> None:
        self._per_cpu = "".join(f"cpu{cpu} 100 0 0 5000 100 0 0 0 0 0\n" for cpu in range(CPUS)) + "intr 1 2 3\n"
        meminfo = {"MemTotal": 256 * GIB, "MemFree": 64 * GIB, "MemAvailable": 128 * GIB}
        others = {f"Other{number}": GIB for number in range(50)}
        self._write("proc/meminfo", "".join(f"{key}: {size // 1024} kB\n" for key, size in (meminfo | others).items()))
        self._write("proc/cpuinfo", "vendor_id : GenuineIntel\nflags : cat_l3 mba\n")
        self._write("proc/sys/vm/min_free_kbytes", "67584\n")
        self._write("proc/sys/vm/watermark_scale_factor", "10\n")
        for resource in ("cpu", "memory", "io"):
            self._write(f"proc/pressure/{resource}", PRESSURE)
        self._write("sys/devices/system/cpu/online", f"0-{CPUS - 1}\n")
        self._write("sys/devices/system/node/online", "0\n")
        self._write("sys/devices/system/node/node0/cpulist", f"0-{CPUS - 1}\n")
        for cpu in range(CPUS):
            self._write(f"sys/devices/system/cpu/cpu{cpu}/topology/core_id", f"{cpu // 2}\n")
            self._write(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", "0\n")
        self._write("sys/kernel/mm/kidled/scan_period_in_seconds", "0\n")
        self._write("sys/kernel/mm/kidled/use_hierarchy", "0\n")
        lines = "    MB:0=100\n    L3:0=fff\n"
        for group in ("", "LSR/", "LS/", "BE/"):
            self._write(f"sys/fs/resctrl/{group}schemata", lines)
            self._write(f"sys/fs/resctrl/{group}tasks", "".join(self._threads(group.strip("/"))))
        self._write("sys/fs/resctrl/info/L3/cbm_mask", "fff\n")
        (self.root / "host/var/lib/terway/qos").mkdir(parents=True)
        self._write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")

    def _fill(self, group: str) -> None:
        stat = "".join(f"{name} {1 << 26}\n" for name in MEMORY_STAT)
        texts = {
            "memory.stat": stat,
            "cpu.max": "100000 100000\n" if group.endswith(".scope") else "max 100000\n",
            "cpu.max.burst": "0\n",
            "cpu.weight": "20\n",
            "cpu.idle": "0\n",
            "cpuset.cpus": "\n",
            "cpuset.cpus.effective": f"0-{CPUS - 1}\n",
            "memory.min": "0\n",
            "memory.low": "0\n",
            "memory.high": "max\n",
            "memory.max": "max\n",
            "memory.oom.group": "0\n",
            "io.max": "",
            "io.weight": "default 100\n",
            "cgroup.procs": "",
            "cgroup.threads": self._threads_of(group),
        }
        texts |= {f"{resource}.pressure": PRESSURE for resource in ("cpu", "memory", "io")}
        for name, text in texts.items():
            self._write(f"sys/fs/cgroup/{group}/{name}", text)

    def _threads(self, class_name: str) -> Iterator[str]:
        """Those that have been moved into the group of a class."""
        for number in range(len(self.uids)):
            if ("LSR", "LS", "BE")[number % 3] == class_name:
                yield from (self._threads_of(group) for group in self._below(number))

    @staticmethod
    def _threads_of(group: str) -> str:
        first = crc32(group.encode()) % 4_000_000
        return "".join(f"{first + each}\n" for each in range(16))

    def _groups(self) -> Iterator[str]:
        for qos in ("Guaranteed", "Burstable", "BestEffort"):
            yield qos_dir("systemd", qos)
        for number in range(len(self.uids)):
            yield self._pod(number)
            yield from self._below(number)

    def _below(self, number: int) -> Iterator[str]:
        yield f"{self._pod(number)}/cri-containerd-s{number:063x}.scope"
        for each in range(self.containers):
            yield f"{self._pod(number)}/cri-containerd-{self._id(number, each)}.scope"

    def _id(self, number: int, each: int) -> str:
        return f"{number:032x}{each:032x}"

    def _pod(self, number: int) -> str:
        return pod_dir("systemd", self._kube_qos(number), self.uids[number])

    @staticmethod
    def _kube_qos(number: int) -> KubeQos:
        return ("Guaranteed", "Burstable", "BestEffort")[number % 3]  # type: ignore[return-value]

    def _told(self, number: int, uid: str) -> NodePod:
        is_batch = number % 3 == 2
        cpu, memory = (names.BATCH_CPU, names.BATCH_MEMORY) if is_batch else (names.CPU, names.MEMORY)
        amounts = {cpu: 1000, memory: GIB}
        sizes = [ContainerSize(name=f"c{each}", requests=amounts, limits=amounts) for each in range(self.containers)]
        whole = {name: amount * self.containers for name, amount in amounts.items()}
        quantities = {cpu: "1000", memory: str(GIB)}
        spec = {
            "containers": {each.name: {"requests": quantities, "limits": quantities} for each in sizes},
        }
        return NodePod(
            node=NODE,
            uid=uid,
            namespace="work",
            name=f"pod-{number}",
            kube_qos=self._kube_qos(number),
            priority=5500 if is_batch else 9500,
            labels={names.LABEL_QOS: ("LSR", "LS", "BE")[number % 3]},
            annotations={names.ANNOTATION_EXTENDED_RESOURCE_SPEC: json.dumps(spec)} if is_batch else {},
            requests=whole,
            limits=whole,
            containers=sizes,
            created=f"2026-11-01T00:00:{number % 60:02}Z",
            phase="Running",
            priority_class="koord-batch" if is_batch else "koord-prod",
            workload=f"ReplicaSet/work/{number % 10}",
        )

    def _write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
