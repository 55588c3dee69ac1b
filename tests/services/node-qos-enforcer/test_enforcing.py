"""One round of enforcement after the other, on a machine made of files."""

import pytest

from berth.contracts.slo import CpuSuppress, NodePod, NodeSLO
from berth.node_qos_enforcer.core.cgroup_paths import qos_dir
from berth.node_qos_enforcer.core.measure import Meter
from berth.node_qos_enforcer.core.strategies.round import Answer, Standing
from berth.node_qos_enforcer.core.strategy import Strategy
from berth.node_qos_enforcer.enforcing import NO_STRATEGY, Enforcer, standing_of, tools_lacking
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.executor.applying import Applied, Applier
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.machine import read_topology
from berth.node_qos_enforcer.sampler import take_sample
from berth.node_qos_enforcer.views import KnownNode
from berth.rules.node_evictions.thresholds import SECTION

HOLD = Strategy(enabled=True, policy="cfsQuota", threshold_percent=50)


class Bench:
    """A machine with a service and best-effort work, and the enforcer of its node."""

    def __init__(self, machine) -> None:
        self.machine = machine
        machine.kubelet()
        self.services_s = 0.0
        self.told: dict[str, NodePod] = {}
        self.known = KnownNode("n")
        applier = Applier(Executor(DiskTree(machine.root / "sys/fs/cgroup")))
        self.enforcer = Enforcer(applier, Meter("n", max_gap_s=5), self.known)

    def round(self, *, service_cores: float = 0.0):
        """A second passes in which the service uses so much."""
        self.services_s += service_cores
        self.machine.monotonic += 1
        self.machine.node(ticks=1_000 + int(self.services_s * 100))
        self.machine.pod("ls", "Burstable", cpu_ns=int(self.services_s * 1e9), memory=0)
        sample = take_sample(self.machine.trees, monotonic=self.machine.clock)
        return self.enforcer.step(sample, now=self.machine.monotonic, now_s=self.machine.monotonic, told=self.told)

    def hold(self, strategy: Strategy) -> None:
        """The node's strategy, as the bus tells it."""
        told = CpuSuppress(
            enabled=strategy.enabled, policy=strategy.policy, threshold_percent=strategy.threshold_percent
        )
        self.known.strategies.restore(NodeSLO(node="n", cpu_suppress=told))

    @property
    def held(self):
        return take_sample(self.machine.trees, monotonic=self.machine.clock).best_effort

    @property
    def quota_us(self) -> int:
        return self.held.quota_us


@pytest.fixture
def bench(fake_machine):
    return Bench(fake_machine)


def test_nothing_is_written_before_a_strategy_is_told(bench):
    for _ in range(3):
        assert bench.round() == NO_STRATEGY
    assert bench.quota_us == -1
    assert bench.enforcer.end() == ()


def test_best_effort_gives_way_at_once_and_comes_back_slowly(bench):
    bench.hold(HOLD)
    bench.round()
    assert "not known yet" in bench.known.standing["suppress"]
    bench.round(service_cores=1.0)
    assert bench.quota_us == 300_000, "8 cores * 50 % - 1"
    bench.round(service_cores=3.5)
    assert bench.quota_us == 50_000
    seen = []
    for _ in range(8):
        bench.round()
        seen.append(bench.quota_us)
    assert seen == [130_000, 210_000, 290_000, 370_000, 400_000, 400_000, 400_000, 400_000]
    assert bench.enforcer.end() == ()
    assert bench.quota_us == -1


@pytest.mark.parametrize("leaves", [False, True])
def test_containers_begin_in_no_group_of_the_caches_that_is_about_to_be_taken_away(bench, leaves):
    bench.known.cache_groups = frozenset({"BE"})
    bench.enforcer.end(leaves=leaves)
    assert bench.known.cache_groups == (frozenset({"BE"}) if leaves else frozenset())


def test_a_strategy_that_is_switched_off_lets_go_and_leaves_alone(bench):
    bench.hold(HOLD)
    bench.round()
    bench.round()
    assert bench.quota_us == 400_000
    bench.hold(Strategy())
    bench.round()
    assert bench.quota_us == -1
    bench.round()
    assert bench.known.refused == ()
    assert bench.enforcer._applier.executor.kept == ()


def test_cpus_of_exclusive_pods_are_kept_from_best_effort(bench):
    bench.hold(HOLD)
    bench.known.exclusive = lambda: frozenset({0, 1})
    bench.known.processors = read_topology(bench.machine.trees.sys)
    bench.round()
    bench.round()
    if bench.machine.mode == "v2":
        group = bench.machine.root / "sys/fs/cgroup" / qos_dir(bench.machine.driver, "BestEffort")
        assert (group / "cpuset.cpus").read_text() == "2-7\n"
    else:
        assert bench.held.cpus == frozenset(range(2, 8))


def test_what_somebody_else_writes_is_put_right(bench):
    bench.hold(HOLD)
    bench.round()
    bench.round()
    group = qos_dir(bench.machine.driver, "BestEffort")
    bench.machine.group(group, cpu_ns=0, memory=0, quota=-1)
    bench.round()
    assert bench.quota_us == 400_000


def test_a_round_that_is_late_writes_nothing_after_the_end(bench):
    bench.hold(HOLD)
    bench.round()
    bench.round()
    assert bench.enforcer.end() == ()
    bench.round(service_cores=2.0)
    assert bench.quota_us == -1


def test_evictions_that_cannot_be_decided_stop_nothing_else(bench):
    bench.hold(HOLD)
    beyond = {
        "cpuAllocatableEvictThresholdPercent": 10**400,
        "cpuAllocatableEvictLowerPercent": 1,
        "allocatableEvictPriorityThreshold": 5_999,
    }
    spec = bench.known.strategies.spec
    bench.known.strategies.spec = {**spec, SECTION: {**spec[SECTION], **beyond}}
    bench.known.view.allocatable = {"kubernetes.io/batch-cpu": 1_000}
    told = NodePod(node="n", uid="ls", namespace="d", name="ls", priority=5_500, priority_class="koord-batch")
    bench.told = {"ls": told}
    bench.round()
    bench.round()
    assert bench.quota_us == 400_000
    assert [each.field for each in bench.known.refused] == ["evictions"]


def test_what_the_image_lacks_is_said_of_who_calls_it():
    tools = tools_lacking(lambda tool: None if tool in ("tc", "findmnt") else f"/usr/bin/{tool}")
    assert tools == {"tc", "findmnt"}
    standings = (Standing("network", True, "", 2), Standing("block-io", True, "no disk"), Standing("suppress", True))
    answer = Answer((), frozenset(), (), standings)
    assert standing_of(answer, Applied(), tools) == {
        "network": "2 values; the image lacks tc",
        "block-io": "skipped: no disk; the image lacks findmnt",
        "suppress": "0 values",
    }
    quiet = answer._replace(standings=(Standing("block-io", True),))
    assert standing_of(quiet, Applied(), tools) == {"block-io": "0 values"}, "nobody asks for a disk"
