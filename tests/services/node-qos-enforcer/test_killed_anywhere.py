"""Every strategy is on, and the agent is killed before each of its writes in turn (every other on version 1).

Files stay then. The next agent ends at the values of one that was never killed, and what is given back is what was
there at first, byte for byte.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.contracts import names
from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.cgroup_files import Bandwidth
from berth.node_qos_enforcer.core.compose import compose
from berth.node_qos_enforcer.core.laws.disks import Disks
from berth.node_qos_enforcer.core.node_facts import NodeFacts
from berth.node_qos_enforcer.core.proc import Cpu
from berth.node_qos_enforcer.core.strategies import node_slo
from berth.node_qos_enforcer.core.strategies.knobs import KNOBS, MEMORY_MAX
from berth.node_qos_enforcer.core.strategies.registry import STRATEGIES
from berth.node_qos_enforcer.core.strategies.round import Round
from berth.node_qos_enforcer.core.strategies.seam import Container, Node, Pod, Snapshot, Usage
from berth.node_qos_enforcer.core.topology import Processor
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.executor.applying import Applier
from berth.node_qos_enforcer.executor.undoing import give_back
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.store import JournalFile

GIB = 1 << 30
ON = {"enable": True}
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


class Killed(BaseException):
    """As if by kill -9."""


class Kernel(Executor):
    """Files that behave like the kernel's; it dies before one of its writes."""

    def __init__(self, root: Path, left: int = 1 << 30) -> None:
        trees = {name: DiskTree(root / name) for name in ("proc", "sys", "host")}
        super().__init__(DiskTree(root / "cgroup"), JournalFile(str(root / "journal")), boot="b", elsewhere=trees)
        self.root, self.left, self.writes = root, left, 0
        self.load()

    def _dies(self) -> None:
        if self.writes == self.left:
            raise Killed
        self.writes += 1

    def _put(self, path, text):
        self._dies()
        where = self._where(path)
        knob = next((each for each in KNOBS.values() if where.name in (each.v1, each.v2) and each.kind == "line"), None)
        now = where.read_text() if where.exists() else ""
        if knob is not None:
            lines = dict(line.partition(" ")[::2] for line in now.splitlines())
            key, _, value = text.partition(" ")
            lines[key] = value
            where.write_text("".join(f"{key} {each}\n" for key, each in lines.items() if each != knob.default))
        elif where.name == "schemata":
            lines = dict(line.strip().partition(":")[::2] for line in now.splitlines())
            lines |= dict(line.strip().partition(":")[::2] for line in text.splitlines())
            where.write_text("".join(f"    {name}:{line.rstrip(';')}\n" for name, line in lines.items()))
        elif where.name == "sched_features":
            word = text.removeprefix("NO_")
            where.write_text(
                " ".join(text if each.removeprefix("NO_") == word else each for each in now.split()) + "\n"
            )
        elif where.name == "tasks" and "resctrl" in path:
            self._move(where, text)
        elif where.name == "cpu.max":
            where.write_text(f"{text} 100000\n" if " " not in text else f"{text}\n")
        elif where.name in ("cpuset.cpus", "cpu.weight", "oom_score_adj") or where.exists():
            where.write_text(f"{text}\n")
        else:
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_text(f"{text}\n")

    def make(self, path):
        self._dies()
        super().make(path)
        (self._where(path) / "schemata").write_text(SCHEMATA)
        (self._where(path) / "tasks").write_text("")

    def _take_away(self, kept):
        where = self._where(kept.path)
        if not where.is_dir():
            return super()._take_away(kept)
        for thread in (where / "tasks").read_text().split():
            self._move(where.parent / "tasks", thread)
        shutil.rmtree(where)
        return None

    def _move(self, into, thread):
        """A thread is in one group of resctrl."""
        top = self.root / "sys/fs/resctrl"
        for tasks in (top / "tasks", *top.glob("*/tasks")):
            inside = {each for each in tasks.read_text().split() if each != thread}
            inside |= {thread} if tasks == into else set()
            tasks.write_text("".join(f"{each}\n" for each in sorted(inside)))

    def _where(self, path):
        return self.root / path.removeprefix("@") if path.startswith("@") else self.root / "cgroup" / path


def pod(uid: str, qos: str, kube_qos: str) -> Pod:
    group = {"Guaranteed": "kubepods", "Burstable": "kubepods/burstable", "BestEffort": BE}[kube_qos] + f"/pod{uid}"
    sizes = {"requests": {"cpu": 1000, "memory": GIB}, "limits": {"cpu": 2000, "memory": 2 * GIB}}
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
SPEC = {
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


def spec_of(version: int) -> dict:
    """Both ways to have identities, and both ways to hold the best-effort group."""
    spec = json.loads(json.dumps(SPEC))
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


def agent(kernel: Kernel, version: int) -> set[str]:
    """An agent's life: a few rounds. Returns the strategies that wanted anything."""
    spec, rounds, applier = spec_of(version), Round(STRATEGIES, COMPONENTS), Applier(kernel)
    layout = cgroups.detect_layout(kernel.tree)
    busy: set[str] = set()
    for now_s in (0.0, 10.0):
        snapshot = snapshot_at(now_s, version)
        snapshot = snapshot._replace(found=applier.found(layout, set(rounds.reads(snapshot, spec))))
        answer = rounds.decide(snapshot, spec)
        busy |= {each.name for each in answer.standings if each.wanted}
        done = frozenset(each.name for each in KNOBS.values() if each.root == "act")
        _, files = compose(snapshot, answer.wanted).apart(done)
        applied = applier.apply(layout, files, asked=lambda _: None, undecided=answer.undecided, now_s=now_s)
        assert [*answer.reports, *applied.problems] == []
    return busy


def texts(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.name.startswith("journal")
    }


def given_back(root: Path) -> dict[str, bytes]:
    """What there is once everything is given back by a process of its own."""
    assert give_back(Kernel(root)) == ()
    return texts(root)


@pytest.fixture
def root(tmp_path) -> Iterator[Path]:
    """In memory, where the machine has that: thousands of small files are written."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.mark.parametrize("version", [1, 2])
def test_an_agent_that_is_killed_before_any_write(root, version, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: None)
    machine(root, version)
    first = texts(root)
    whole = Kernel(root)
    busy = agent(whole, version)
    missing = {"core-scheduling" if version == 1 else "group-identity", "network"}
    assert busy == {each.name for each in STRATEGIES} - missing, "each strategy has something to write"
    last = texts(root)
    assert whole.writes > 60
    assert given_back(root) == first
    for left in range(0, whole.writes, 3 - version):
        killed = Kernel(root, left)
        with pytest.raises(Killed):
            agent(killed, version)
        if left % 4 == 0:
            agent(Kernel(root), version)
            assert texts(root) == last, f"before write {left}, after another agent"
        assert given_back(root) == first, f"before write {left}"
