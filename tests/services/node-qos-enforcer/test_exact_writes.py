"""What is written, byte for byte, where no kernel of the tests has the files: resctrl, identities, kidled, scores."""

import shutil
from pathlib import Path

from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.compose import Composed
from berth.node_qos_enforcer.core.strategies.seam import Ref
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.executor.applying import Applier
from berth.node_qos_enforcer.executor.undoing import give_back
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.store import JournalFile

BE = "kubepods/besteffort"
ROOT_SCHEMATA = "    MB:0=100;1=100\n    L3:0=fff;1=fff\n"


class Kernel(Executor):
    """An executor on files that only look like the kernel's: it keeps what it was told to write, in order."""

    def __init__(self, root: Path) -> None:
        trees = {name: DiskTree(root / name) for name in ("proc", "sys", "host")}
        super().__init__(DiskTree(root / "cgroup"), JournalFile(str(root / "journal")), boot="b", elsewhere=trees)
        self.root = root
        self.wrote = []

    def _put(self, path, text):
        self.wrote.append((path.removeprefix("@"), text))
        where = self._where(path)
        if where.name == "schemata":
            lines = dict(line.strip().partition(":")[::2] for line in where.read_text().splitlines())
            lines |= dict(line.strip().partition(":")[::2] for line in text.splitlines())
            where.write_text("".join(f"    {name}:{line.rstrip(';')}\n" for name, line in lines.items()))
        elif where.name == "tasks":
            where.write_text(where.read_text() + f"{text}\n")
        else:
            where.write_text(f"{text}\n")

    def make(self, path):
        super().make(path)
        self.wrote.append((path.removeprefix("@"), "mkdir"))
        (self._where(path) / "schemata").write_text(ROOT_SCHEMATA)
        (self._where(path) / "tasks").write_text("")

    def _take_away(self, kept):
        self.wrote.append((kept.path.removeprefix("@"), "rmdir"))
        shutil.rmtree(self._where(kept.path))

    def _where(self, path):
        return self.root / path.removeprefix("@") if path.startswith("@") else self.root / "cgroup" / path


def machine(tmp_path, files):
    for path, text in {"cgroup/cgroup.controllers": "cpu memory io\n", **files}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for name in ("proc", "sys", "host"):
        (tmp_path / name).mkdir(exist_ok=True)
    return Kernel(tmp_path)


def rounds(kernel, values, count):
    applier, layout = Applier(kernel), cgroups.detect_layout(kernel.tree)
    for now in range(count):
        applied = applier.apply(layout, Composed(values), asked=lambda _: None, undecided=frozenset(), now_s=float(now))
        assert applied.problems == ()


def texts(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "journal"}


def test_groups_of_resctrl(tmp_path):
    kernel = machine(tmp_path, {"sys/fs/resctrl/schemata": ROOT_SCHEMATA})
    before = texts(tmp_path)
    group = "fs/resctrl/BE"
    values = {
        Ref(group, "resctrl.group"): "there",
        Ref(group, "resctrl.schemata", "L3"): "L3:0=f;1=f;",
        Ref(group, "resctrl.schemata", "MB"): "MB:0=100;1=100;",
        Ref(group, "resctrl.tasks", "c"): "12\n13",
    }
    rounds(kernel, values, 3)
    assert kernel.wrote == [
        ("sys/fs/resctrl/BE", "mkdir"),
        ("sys/fs/resctrl/BE/schemata", "L3:0=f;1=f;"),
        ("sys/fs/resctrl/BE/tasks", "12"),
        ("sys/fs/resctrl/BE/tasks", "13"),
    ]
    assert give_back(kernel) == ()
    assert kernel.wrote[-1] == ("sys/fs/resctrl/BE", "rmdir")
    assert texts(tmp_path) == before


def test_identities_kidled_features_and_scores(tmp_path):
    files = {
        f"cgroup/{BE}/cpu.bvt_warp_ns": "0\n",
        "sys/kernel/mm/kidled/scan_period_in_seconds": "0\n",
        "sys/kernel/mm/kidled/use_hierarchy": "0\n",
        "sys/kernel/debug/sched_features": "A NO_B\n",
        "proc/7/oom_score_adj": "-997\n",
        "proc/sys/kernel/sched_core": "1\n",
    }
    kernel = machine(tmp_path, files)
    values = {
        Ref("sys/kernel", "kernel.sched_core"): "0",
        Ref(BE, "cpu.bvt_warp_ns"): "-1",
        Ref("kernel/mm/kidled", "kidled.use_hierarchy"): "1",
        Ref("kernel/mm/kidled", "kidled.scan_period_in_seconds"): "5",
        Ref("7", "proc.oom_score_adj"): "300",
    }
    rounds(kernel, values, 2)
    assert sorted(kernel.wrote) == [
        (f"{BE}/cpu.bvt_warp_ns", "-1"),
        ("proc/7/oom_score_adj", "300"),
        ("proc/sys/kernel/sched_core", "0"),
        ("sys/kernel/mm/kidled/scan_period_in_seconds", "5"),
        ("sys/kernel/mm/kidled/use_hierarchy", "1"),
    ]
    assert give_back(kernel) == ()
    assert {str(path.relative_to(tmp_path)): text.decode() for path, text in texts(tmp_path).items()} == {
        "cgroup/cgroup.controllers": "cpu memory io\n",
        **files,
    }


def test_a_container_is_slowed_step_by_step(tmp_path):
    group = f"{BE}/podx/c"
    kernel = machine(tmp_path, {f"cgroup/{group}/memory.high": "max\n", f"cgroup/{group}/memory.current": "0\n"})
    before = texts(tmp_path)
    applier, layout = Applier(kernel), cgroups.detect_layout(kernel.tree)
    wanted, page = 100 * 4096, 4096
    for now, (in_use, expected) in enumerate([(200, 190), (200, 190), (220, 190), (180, 171), (104, 100), (300, 100)]):
        (tmp_path / f"cgroup/{group}/memory.current").write_text(f"{in_use * page}\n")
        applied = applier.apply(
            layout,
            Composed({Ref(group, "memory.high"): str(wanted)}),
            asked=lambda _: None,
            undecided=frozenset(),
            now_s=float(now),
        )
        assert applied.problems == ()
        assert (tmp_path / f"cgroup/{group}/memory.high").read_text() == f"{expected * page}\n"
    assert len(kernel.wrote) == 3, "what it has is not written again"
    (tmp_path / f"cgroup/{group}/memory.current").write_text("0\n")
    assert give_back(kernel) == ()
    assert texts(tmp_path) == before


def test_a_folder_that_the_kernel_does_not_have_is_said(tmp_path):
    kernel = machine(tmp_path, {})
    values = {
        Ref("kernel/mm/kidled", "kidled.use_hierarchy"): "1",
        Ref("kernel/debug/sched", "kernel.sched.features", "A"): "A",
        Ref("7", "proc.oom_score_adj"): "300",
        Ref(f"{BE}/pod", "cpu.bvt_warp_ns"): "-1",
    }
    layout = cgroups.detect_layout(kernel.tree)
    applied = Applier(kernel).apply(layout, Composed(values), asked=lambda _: None, undecided=frozenset(), now_s=0.0)
    assert applied.lacking == {"kidled.use_hierarchy", "kernel.sched.features"}, "what has ended is no lack"
    assert applied.problems == ()
