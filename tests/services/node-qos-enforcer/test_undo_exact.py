"""The law of undoing: whatever strategies wanted, and wherever processes died, what is given back is what was found.

Random rounds of values, and processes that are killed in between, judged by the bytes of every
file. Two planted bugs show that the law can fail.
"""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.compose import Composed
from berth.node_qos_enforcer.core.strategies.knobs import CPU_QUOTA, CPU_SHARES, CPUSET, MEMORY_MAX, MEMORY_MIN
from berth.node_qos_enforcer.core.strategies.seam import Ref
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.executor.applying import Applier
from berth.node_qos_enforcer.executor.undoing import give_back
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.store import JournalFile

TOP = "kubepods/besteffort"
GROUPS = ("kubepods", TOP, f"{TOP}/poda", f"{TOP}/poda/c", "kubepods/burstable", "kubepods/burstable/podb")
FILES = {
    "cpu.max": ("max 100000\n", "250000 100000\n", "50000 50000\n"),
    "cpu.weight": ("1\n", "39\n"),
    "cpuset.cpus": ("\n", "0-5\n", "1,0\n"),
    "memory.min": ("0\n", "4096\n"),
    "memory.max": ("max\n", "8388608\n"),
}
VALUES = {
    CPU_QUOTA: ("max", "2000", "300000"),
    CPU_SHARES: ("2", "512", "1024"),
    CPUSET: ("0-1", "2-4", ""),
    MEMORY_MIN: ("0", "1048577"),
    MEMORY_MAX: ("max", "16777216"),
}


class Killed(BaseException):
    """As if by kill -9."""


class Mortal(Executor):
    """Dies before one of its writes."""

    left = 1 << 30

    def _put(self, path, text):
        if self.left == 0:
            raise Killed
        self.left -= 1
        super()._put(path, text)


class WritesFirst(Mortal):
    """A bug: the journal is written after the file."""

    def note(self, files):
        self._late = [*getattr(self, "_late", []), *files]

    def _put(self, path, text):
        super()._put(path, text)
        late, self._late = getattr(self, "_late", []), []
        super().note(late)


class NotesAgain(Mortal):
    """A bug: what a file has now replaces what it had first."""

    def note(self, files):
        known = list(files)
        self._journal.forget(lambda kept: any(kept.path == each.path for each in known))
        super().note(known)


def make(root: Path, rng: random.Random, group: str) -> None:
    (root / group).mkdir(parents=True, exist_ok=True)
    for name, texts in FILES.items():
        (root / group / name).write_text(rng.choice(texts))


def broken(folder: Path, seed: int, executor: type[Mortal]) -> str:
    """What differs in the end; empty: nothing."""
    rng = random.Random(seed)
    root, journal = folder / f"{seed}", folder / f"{seed}.journal"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpu cpuset memory\n")
    for group in GROUPS:
        make(root, rng, group)
    first = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    layout = cgroups.detect_layout(DiskTree(root))
    for _ in range(rng.randint(1, 3)):
        process = executor(DiskTree(root), JournalFile(str(journal)), boot="this")
        process.left = rng.choice((0, 1, 3, 8, 1 << 30))
        process.load()
        applier = Applier(process)
        try:
            for second in range(rng.randint(1, 3)):
                wanted = {
                    Ref(group, knob): rng.choice(values)
                    for group in GROUPS
                    for knob, values in VALUES.items()
                    if rng.random() < 0.3
                }
                applier.apply(
                    layout, Composed(wanted), asked=lambda _: None, undecided=frozenset(), now_s=float(second)
                )
        except Killed:
            pass
    last = Executor(DiskTree(root), JournalFile(str(journal)), boot="this")
    last.load()
    if problems := give_back(last):
        return str(problems)
    return ", ".join(str(path) for path, text in first.items() if path.read_bytes() != text)


@settings(max_examples=15)
@given(st.integers(0, 1 << 30))
def test_what_is_given_back_is_what_was_found(tmp_path_factory, seed):
    assert broken(tmp_path_factory.mktemp("tree"), seed, Mortal) == ""


@pytest.mark.parametrize("bug", [WritesFirst, NotesAgain])
def test_a_planted_bug_breaks_the_law(tmp_path, bug):
    assert any(broken(tmp_path, seed, bug) for seed in range(8))
