"""Every strategy is on, and the agent is killed before each of its writes in turn (every other on version 1).

Files stay then. The next agent ends at the values of one that was never killed, and what is given back is what was
there at first, byte for byte.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.services.node_qos_all_on import COMPONENTS, SCHEMATA, machine, snapshot_at, spec_of

from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.composing import Composing
from berth.node_qos_enforcer.core.strategies.knobs import KNOBS
from berth.node_qos_enforcer.core.strategies.registry import STRATEGIES
from berth.node_qos_enforcer.core.strategies.round import Round
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.executor.applying import Applier
from berth.node_qos_enforcer.executor.undoing import give_back
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.store import JournalFile


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


def agent(kernel: Kernel, version: int) -> set[str]:
    """An agent's life: a few rounds. Returns the strategies that wanted anything."""
    spec, rounds, applier = spec_of(version), Round(STRATEGIES, COMPONENTS), Applier(kernel)
    composing = Composing(frozenset(each.name for each in KNOBS.values() if each.root == "act"))
    layout = cgroups.detect_layout(kernel.tree)
    busy: set[str] = set()
    for now_s in (0.0, 10.0):
        snapshot = snapshot_at(now_s, version)
        snapshot = snapshot._replace(found=applier.found(layout, set(rounds.reads(snapshot, spec))))
        answer = rounds.decide(snapshot, spec)
        busy |= {each.name for each in answer.standings if each.wanted}
        change = composing.compose(snapshot, answer.parts)
        applied = applier.apply(
            layout,
            change.files,
            asked=lambda _: None,
            undecided=answer.undecided,
            now_s=now_s,
            touched=change.touched,
        )
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
