"""A node where every strategy is on: its pods, its specification, and the files that may be written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from berth.contracts import names
from berth.node_qos_enforcer.core.cgroup_files import Bandwidth
from berth.node_qos_enforcer.core.laws.disks import Disks
from berth.node_qos_enforcer.core.node_facts import NodeFacts
from berth.node_qos_enforcer.core.proc import Cpu
from berth.node_qos_enforcer.core.strategies import node_slo
from berth.node_qos_enforcer.core.strategies.knobs import KNOBS, MEMORY_MAX
from berth.node_qos_enforcer.core.strategies.registry import STRATEGIES
from berth.node_qos_enforcer.core.strategies.seam import Container, Node, Pod, Snapshot, Usage
from berth.node_qos_enforcer.core.topology import Processor

GIB = 1 << 30
ON: dict[str, Any] = {"enable": True}
BE = "kubepods/besteffort"
COMPONENTS = frozenset(each.component for each in STRATEGIES)
BATCH = {"requests": {names.BATCH_CPU: "1000"}, "limits": {names.BATCH_CPU: "2000", names.BATCH_MEMORY: "1Gi"}}
DISK = ON | {"blocks": [{"name": "/dev/vda", "type": "device", "ioCfg": {"readIOPS": 100, "ioWeightPercent": 50}}]}
CACHE = ON | {"catRangeStartPercent": 0, "catRangeEndPercent": 50, "mbaPercent": 50}
MEMORY = ON | {
    "minLimitPercent": 50,
    "lowLimitPercent": 80,
    "throttlingPercent": 80,
    "wmarkRatio": 95,
    "oomKillGroup": 1,
}
PAGES = {"pageCacheEnable": True, "pageCacheLimitPercent": 50}
SCHEMATA = "    MB:0=100\n    L3:0=fff\n"
FIRST = {"quota": "max 100000", "weight": "100", "cpus": "0-7", "ids": "7", "line": "", "text": "", "number": "0"}
FIRST_V1 = FIRST | {"quota": "-1", "weight": "1024"}


def pod(uid: str, qos: str, kube_qos: str) -> Pod:
    group = {"Guaranteed": "kubepods", "Burstable": "kubepods/burstable", "BestEffort": BE}[kube_qos] + f"/pod{uid}"
    sizes: dict[str, Any] = {"requests": {"cpu": 1000, "memory": GIB}, "limits": {"cpu": 2000, "memory": 2 * GIB}}
    notes = {
        names.ANNOTATION_OOM_SCORE: "900",
        names.ANNOTATION_RESCTRL: json.dumps({"mb": {"schemata": {"percent": 20}}}),
    }
    if qos == "BE":
        sizes = {"requests": {}, "limits": {}}
        notes = {names.ANNOTATION_EXTENDED_RESOURCE_SPEC: json.dumps({"containers": {"main": BATCH}})}
    main = Container("main", "c", f"{group}/c", **sizes, is_sized=True)
    return Pod(
        uid=uid,
        namespace="d",
        name=uid,
        qos=qos,
        kube_qos=kube_qos,
        annotations=notes,
        labels={names.LABEL_QOS: qos},
        containers=(main,),
        group=group,
        sandbox_group=f"{group}/s",
        is_known=True,
        may_lower_oom_scores=True,
        **sizes,
    )


# By their uids these are looked at in the first second.
PODS = (pod("n", "LS", "Burstable"), pod("P", "BE", "BestEffort"))
SPEC: dict[str, Any] = {
    "resourceUsedThresholdWithBE": ON,
    "resourceQOSStrategy": {
        "lsrClass": {"cpuQOS": ON, "memoryQOS": MEMORY, "resctrlQOS": CACHE},
        "lsClass": {"cpuQOS": ON, "memoryQOS": MEMORY | PAGES, "resctrlQOS": CACHE, "networkQOS": ON},
        "beClass": {"cpuQOS": ON, "memoryQOS": MEMORY, "resctrlQOS": CACHE, "blkioQOS": DISK, "networkQOS": ON},
        "cgroupRoot": {"blkioQOS": DISK},
    },
    "cpuBurstStrategy": {"policy": "auto"},
    "systemStrategy": {
        "minFreeKbytesFactor": 88,
        "watermarkScaleFactor": 20,
        "memcgReapBackGround": 1,
        "schedIdleSaverWmark": 5,
        "schedFeatures": {"A": True},
        "totalNetworkBandwidth": "100M",
    },
    "extensions": {"nodeMemoryCollectPolicy": "usageWithHotPageCache"},
}
SETTINGS = {
    "proc/sys/kernel/sched_group_identity_enabled": "0\n",
    "proc/sys/kernel/sched_core": "1\n",
    "proc/sys/kernel/sched_idle_saver_wmark": "0\n",
    "proc/sys/vm/min_free_kbytes": "67584\n",
    "proc/sys/vm/watermark_scale_factor": "10\n",
    "proc/70/oom_score_adj": "3\n",
    "sys/kernel/mm/memcg_reaper/reap_background": "0\n",
    "sys/kernel/mm/kidled/scan_period_in_seconds": "0\n",
    "sys/kernel/mm/kidled/use_hierarchy": "0\n",
    "sys/kernel/debug/sched_features": "NO_A B\n",
    "sys/fs/resctrl/schemata": SCHEMATA,
    "sys/fs/resctrl/tasks": "70\n71\n",
    "sys/fs/resctrl/info/L3/cbm_mask": "fff\n",
}


def spec_of(version: int) -> dict[str, Any]:
    """Both ways to have identities, and both ways to hold the best-effort group."""
    spec: dict[str, Any] = json.loads(json.dumps(SPEC))
    spec["resourceUsedThresholdWithBE"]["cpuSuppressPolicy"] = "cfsQuota" if version == 2 else "cpuset"
    spec["resourceQOSStrategy"]["policies"] = {
        "cpuPolicy": "coreSched" if version == 2 else "groupIdentity",
        "netQOSPolicy": "terway-qos",
    }
    return node_slo.effective(spec)


def machine(root: Path, version: int) -> None:
    """Every file that a strategy may write, as a kernel has it first."""
    files = dict(SETTINGS)
    groups = ["", "kubepods", "kubepods/burstable", BE]
    groups += [f"{each.group}{end}" for each in PODS for end in ("", "/s", "/c")]
    if version == 2:
        files["cgroup/cgroup.controllers"] = "cpu cpuset memory io\n"
    for knob in KNOBS.values():
        name = knob.v1 if version == 1 else knob.v2
        if knob.root != "cgroup" or not name:
            continue
        text = (FIRST_V1 if version == 1 else FIRST)[knob.kind]
        if knob.name == MEMORY_MAX:
            text = "max" if version == 2 else "9223372036854771712"
        elif knob.name.startswith("memory.high"):
            text = "max"
        for group in groups:
            if knob.kind == "ids":
                text = next((str(70 + at) for at, each in enumerate(PODS) if group == f"{each.group}/c"), "")
            where = f"cgroup/{knob.controller}/{group}" if version == 1 else f"cgroup/{group}"
            files[f"{where}/{name}"] = f"{text}\n" if text else ""
            if version == 1 and knob.kind == "quota":
                files[f"{where}/cpu.cfs_period_us"] = "100000\n"
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "host/var/lib/terway/qos").mkdir(parents=True)


def snapshot_at(now_s: float, version: int) -> Snapshot:
    node = Node(
        name="n",
        version=version,
        driver="cgroupfs",
        processors=tuple(Processor(cpu, cpu // 2, 0, 0) for cpu in range(8)),
        capacity={"cpu": 8000, "memory": 16 * GIB},
        allocatable={"cpu": 8000, "memory": 16 * GIB},
        facts=NodeFacts(cpu_ratio=1.25),
        capacity_milli=8000,
        below_best_effort=(f"{BE}/podP", f"{BE}/podP/s", f"{BE}/podP/c"),
        bandwidth=Bandwidth(-1, 100_000),
        best_effort_cpus=frozenset(range(8)),
        all_cpus=frozenset(range(8)),
        cpu=Cpu("GenuineIntel"),
    )
    usage = Usage(node_cores=4.0, pod_cores={"n": 1.0, "P": 1.0})
    return Snapshot(node, PODS, usage, now_s=now_s, disks=Disks({"/dev/vda": "8:0"}))
