"""What runs in the guest: every knob of version 2 is brought to a value by the agent's own executor, read back from the
kernel, and given back. Prints one line of JSON.

    python tests/kernel/inside.py FOLDER        # the kernel's folder, for its modules
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.compose import Composed
from berth.node_qos_enforcer.core.laws import block_io
from berth.node_qos_enforcer.core.laws.bandwidth import Level
from berth.node_qos_enforcer.core.laws.shaping import Sender, marks_text, tree_text
from berth.node_qos_enforcer.core.strategies.seam import Ref
from berth.node_qos_enforcer.doers.network import NetworkDoer
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.executor.applying import Applier
from berth.node_qos_enforcer.executor.undoing import give_back
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.store import JournalFile

CGROUPS = Path("/sys/fs/cgroup")
TOP, BURSTABLE, BEST_EFFORT = "kubepods", "kubepods/burstable", "kubepods/besteffort"
POD, CONTAINER = "kubepods/burstable/podp", "kubepods/burstable/podp/c"
MIB = 1 << 20
DEVICE = "dummy0"
OF_ANOLIS = {
    "cpu.bvt_warp_ns": "2",
    "memory.wmark_ratio": "95",
    "memory.wmark_scale_factor": "20",
    "memory.wmark_min_adj": "-25",
    "memory.priority": "1",
    "memory.use_priority_oom": "1",
    "memory.pagecache_limit.size": str(MIB),
    "memory.pagecache_limit.sync": "1",
    "memory.pagecache_limit.enable": "1",
}
"""Files of groups that another kernel has: this one is said to lack them."""
ELSEWHERE = {
    "kernel.sched_group_identity_enabled": "sys/kernel",
    "kernel.sched_core": "sys/kernel",
    "kernel.sched_idle_saver_wmark": "sys/kernel",
    "mm.reap_background": "kernel/mm/memcg_reaper",
    "mm.pagecache_limit": "kernel/mm/pagecache_limit",
    "kidled.scan_period_in_seconds": "kernel/mm/kidled",
    "kidled.use_hierarchy": "kernel/mm/kidled",
}
"""The same of the kernel as a whole, with their folders."""


def main(folder: str) -> None:
    """Run everything and print what came of it."""
    modules(folder, "null_blk", "dummy", "sch_htb", "nf_tables", "nft_socket", "nft_chain_nat")
    disk = Path("/sys/block/nullb0/dev").read_text().strip()
    groups()
    process = subprocess.Popen(["/bin/sleep", "600"])
    (CGROUPS / CONTAINER / "cgroup.procs").write_text(str(process.pid))
    before = texts(disk)
    started = time.monotonic()
    answer: dict[str, Any] = {"disk": disk}
    try:
        answer |= files(disk, process.pid)
    finally:
        process.kill()
    answer["seconds"] = round(time.monotonic() - started, 1)
    after = texts(disk)
    answer["not_given_back"] = {path: [text, after[path]] for path, text in before.items() if after[path] != text}
    answer["network"] = network()
    print(json.dumps(answer))


def modules(folder: str, *names: str) -> None:
    """Load what a node has loaded already."""
    for name in names:
        subprocess.run(["modprobe", "-d", folder, name], check=False, capture_output=True)


def groups() -> None:
    """The groups that kubelet makes, and one pod with a container."""
    for group in ("", TOP, BURSTABLE, BEST_EFFORT, POD):
        (CGROUPS / group).mkdir(exist_ok=True)
        (CGROUPS / group / "cgroup.subtree_control").write_text("+cpu +cpuset +memory +io")
    (CGROUPS / CONTAINER).mkdir()


def values(disk: str, process: int) -> dict[Ref, str]:
    """One value for every knob."""
    limits = block_io.Limits(read_bps=MIB, write_iops=100, io_weight_percent=40)
    of_group = block_io.group_lines_v2(disk, limits)
    of_root = block_io.root_lines_v2(disk, limits)
    return {
        Ref(BEST_EFFORT, "cpu.quota"): "50000",
        Ref(BEST_EFFORT, "cpu.idle"): "1",
        Ref(BEST_EFFORT, "cpuset.cpus"): "0",
        Ref(POD, "cpu.quota"): "150000",
        Ref(CONTAINER, "cpu.quota"): "120000",
        Ref(CONTAINER, "cpu.burst"): "60000",
        Ref(CONTAINER, "cpu.shares"): "2048",
        Ref(BURSTABLE, "memory.min"): str(8 * MIB),
        Ref(POD, "memory.min"): str(8 * MIB),
        Ref(CONTAINER, "memory.min"): str(4 * MIB),
        Ref(CONTAINER, "memory.low"): str(6 * MIB),
        Ref(CONTAINER, "memory.high"): str(64 * MIB),
        Ref(CONTAINER, "memory.max"): str(128 * MIB),
        Ref(CONTAINER, "memory.oom.group"): "1",
        **{Ref(CONTAINER, name): value for name, value in OF_ANOLIS.items()},
        **{Ref(BEST_EFFORT, file, disk): line.removeprefix(f"{disk} ") for file, line in of_group.items()},
        **{Ref("", file, disk): line.removeprefix(f"{disk} ") for file, line in of_root.items()},
        Ref("sys/vm", "vm.min_free_kbytes"): "20480",
        Ref("sys/vm", "vm.watermark_scale_factor"): "20",
        **{Ref(folder, name): "1" for name, folder in ELSEWHERE.items()},
        Ref("kernel/debug/sched", "kernel.sched.features", "GENTLE_FAIR_SLEEPERS"): "NO_GENTLE_FAIR_SLEEPERS",
        Ref(str(process), "proc.oom_score_adj"): "700",
        Ref("tmp/terway", "terway.global_bps_config"): "hw_tx_bps_max 1",
        Ref("tmp/terway", "terway.pods"): "{}",
    }


def files(disk: str, process: int) -> dict[str, Any]:
    """Bring every file to its value, twice, and give all back."""
    Path("/tmp/terway").mkdir(exist_ok=True)
    tree = DiskTree(CGROUPS)
    roots = {"proc": DiskTree(Path("/proc")), "sys": DiskTree(Path("/sys")), "host": DiskTree(Path("/"))}
    executor = Executor(tree, JournalFile("/tmp/journal"), boot="guest", elsewhere=roots)
    applier = Applier(executor)
    layout = cgroups.detect_layout(tree)
    # As `compose` has it: the weight of a group that is idle is left, until it is idle no more.
    wanted = Composed(values(disk, process), frozenset({Ref(BEST_EFFORT, "cpu.shares")}))
    asked = lambda ref: None  # noqa: E731
    rounds = [applier.apply(layout, wanted, asked=asked, undecided=frozenset(), now_s=float(now)) for now in range(3)]
    has = {f"{ref.group}:{ref.knob}": text for ref, text in applier.found(layout, wanted.values).items()}
    successor = Executor(tree, JournalFile("/tmp/journal"), boot="guest", elsewhere=roots)
    successor.load()
    problems = give_back(successor)
    return {
        "written": [each.written for each in rounds],
        "problems": [str(each) for each in rounds[-1].problems],
        "lacking": sorted(rounds[0].lacking),
        "has": has,
        "refused_to_go_back": [str(each) for each in problems],
    }


def texts(disk: str) -> dict[str, str]:
    """What all files of the groups have that a strategy may set, and the kernel's settings."""
    names = {
        *("cpu.max", "cpu.max.burst", "cpu.weight", "cpu.idle", "cpuset.cpus"),
        *("memory.min", "memory.low", "memory.high", "memory.max", "memory.oom.group"),
        *("io.max", "io.weight", "io.cost.qos", "io.cost.model"),
    }
    paths = [path for path in CGROUPS.rglob("*") if path.name in names]
    paths += [Path("/proc/sys/vm/min_free_kbytes"), Path("/proc/sys/vm/watermark_scale_factor")]
    paths.append(Path("/sys/kernel/debug/sched/features"))
    return {str(path): path.read_text() for path in paths}


def network() -> dict[str, Any]:
    """The device's tree and the table of marks, made, changed and taken away."""
    subprocess.run(["ip", "link", "add", DEVICE, "type", "dummy"], check=False)
    subprocess.run(["ip", "link", "set", DEVICE, "up"], check=False)
    doer = NetworkDoer()
    level_1, level_2 = Level(egress_min=30_000_000), Level(egress_min=10_000_000, egress_max=20_000_000)

    def wanted(own: dict[str, int]) -> dict[Ref, str]:
        senders = [
            Sender("a", 1, ("10.0.0.1", "fd00::1")),
            Sender("b", 2, ("10.0.0.2",), egress_bits=8_000_000),
            Sender("c", 2, group=POD),
        ]
        tree = tree_text(DEVICE, 100_000_000, level_1, level_2, dict.fromkeys(own.values(), 8_000_000))
        return {
            Ref(DEVICE, "net.tree"): tree,
            Ref(DEVICE, "net.classes"): marks_text(senders, own, has_groups=True),
        }

    first = doer.bring(wanted({"b": 10}))
    second = doer.bring(wanted({}))
    shown = {name: said(*command.split()) for name, command in SHOWN.items()}
    gone = NetworkDoer().bring({})
    return {
        "problems": [str(each) for each in (*first.problems, *second.problems, *gone.problems)],
        "shown": shown,
        "after": {name: said(*command.split()) for name, command in SHOWN.items()},
    }


SHOWN = {
    "qdisc": f"tc qdisc show dev {DEVICE}",
    "classes": f"tc class show dev {DEVICE}",
    "table": "nft list table inet berth_qos",
}


def said(*command: str) -> str:
    """What a command printed."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout + done.stderr


if __name__ == "__main__":
    main(sys.argv[1])
