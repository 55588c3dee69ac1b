"""Whom a node asks to have evicted, look after look: one need, no more pods than it takes, the next when one stays."""

import pytest
from msgspec.structs import replace

from berth.contracts.names import BATCH_CPU, BATCH_MEMORY, CPU, LABEL_QOS, MEMORY
from berth.contracts.slo import NodePod, PodEviction
from berth.node_qos_enforcer.core.cgroup_files import Bandwidth
from berth.node_qos_enforcer.core.evicting.asking import REFUSED_S, REST_S, Asking
from berth.node_qos_enforcer.core.strategies.node_slo import effective
from berth.node_qos_enforcer.core.strategies.seam import Node, Pod, Snapshot, Usage
from berth.rules.cpus.qos import BATCH
from berth.rules.node_evictions.thresholds import SECTION

GIB = 1 << 30
NODE = Node(
    capacity={CPU: 100_000, MEMORY: 100 * GIB},
    allocatable={CPU: 100_000, MEMORY: 100 * GIB, BATCH_CPU: 30_000, BATCH_MEMORY: 30 * GIB},
    capacity_milli=100_000,
    bandwidth=Bandwidth(2_000_000, 100_000),
    best_effort_cpus=frozenset(range(40)),
)


class Bench:
    """A node with best-effort pods that use memory and CPU, and what SLO says of them."""

    def __init__(self, **threshold):
        self.spec = effective({SECTION: {"enable": True, **threshold}})
        self.now_s = 100.0
        self.asking = Asking(0.0)
        self.told: dict[str, NodePod] = {}
        self.memory: dict[str, int] = {}
        self.cores: dict[str, float] = {}
        self.others = 30 * GIB
        self.busy: float | None = 10.0
        """Cores that others use; None: the node's use is not known."""
        self.unmeasured: set[str] = set()

    def pod(self, uid, memory, *, cores=1.0, priority=5_500, **fields):
        requests = {BATCH_CPU: 10_000, BATCH_MEMORY: memory * GIB}
        given = {"labels": {LABEL_QOS: "BE"}, "priority_class": BATCH, "phase": "Running", **fields}
        self.told[uid] = NodePod(
            node="n", uid=uid, namespace="d", name=uid, priority=priority, requests=requests, **given
        )
        self.memory[uid], self.cores[uid] = memory * GIB, cores

    def look(self, after_s=1.0):
        self.now_s += after_s
        usage = Usage(
            None if self.busy is None else sum(self.cores.values()) + self.busy,
            dict(self.cores),
            sum(self.memory.values()) + self.others,
            {uid: used for uid, used in self.memory.items() if uid not in self.unmeasured},
        )
        snapshot = Snapshot(NODE, tuple(Pod(uid) for uid in self.memory), usage, now_s=self.now_s)
        asks, self.problem = self.asking.decide(snapshot, self.spec, self.told, int(self.now_s * 1000))
        self.asks = asks
        return [each.uid for each in asks]

    def answer(self, uid, state):
        ask = next(each for each in self.asks if each.uid == uid)
        said = PodEviction(
            number=ask.number, need=ask.need, feature=ask.feature, accumulator=ask.accumulator, state=state
        )
        self.told[uid] = replace(self.told[uid], eviction=said)

    def leave(self, uid):
        for known in (self.told, self.memory, self.cores):
            del known[uid]


def test_memory_above_its_threshold_asks_at_the_next_look():
    bench = Bench()
    bench.pod("small", 10)
    bench.pod("large", 20)
    assert bench.look() == []
    bench.others = 45 * GIB
    assert bench.look() == ["large"]
    (ask,) = bench.asks
    assert (ask.feature, ask.accumulator, ask.rank) == ("BEMemoryEvict", "podUsed", 0)
    assert ask.release == {MEMORY: 7 * GIB}  # 75 %, down to 68 %
    assert ask.counts == {MEMORY: 20 * GIB}
    assert ask.message == "memory of the node is used to 75 %, at or above 70 %"
    # The same ask stands while nothing has changed.
    assert bench.look(30.0) == ["large"]
    assert bench.asks == [ask]


def test_who_is_refused_makes_way_for_the_next_one_at_once():
    bench = Bench()
    bench.pod("small", 10)
    bench.pod("large", 20)
    bench.others = 45 * GIB
    bench.look()
    need = bench.asks[0].need
    bench.answer("large", "refused")
    assert bench.look() == ["small"]
    assert bench.asks[0].need == need
    bench.answer("small", "granted")
    assert bench.look(REST_S[MEMORY]) == ["small"]
    # Once it is gone the node is below its threshold.
    bench.leave("small")
    bench.others = 30 * GIB
    assert bench.look() == []
    # Who was refused is asked for again after a while, under another number.
    bench.others = 55 * GIB
    assert bench.look(REST_S[MEMORY]) == []
    assert bench.look(REFUSED_S) == ["large"]


def test_a_need_that_is_over_is_withdrawn_unless_it_was_granted():
    bench = Bench()
    bench.pod("a", 20)
    bench.others = 55 * GIB
    assert bench.look() == ["a"]
    bench.others = 30 * GIB
    assert bench.look() == []
    bench.others = 55 * GIB
    assert bench.look(REST_S[MEMORY]) == ["a"]
    bench.answer("a", "granted")
    bench.others = 30 * GIB
    assert bench.look() == ["a"]


def test_who_is_leaving_covers_the_need_after_a_restart_as_well():
    bench = Bench()
    bench.pod("a", 20)
    bench.pod("b", 10)
    bench.others = 45 * GIB
    bench.look()
    bench.answer("a", "granted")
    bench.asking = Asking(bench.now_s)
    assert bench.look(30.0) == []
    bench.told["a"] = replace(bench.told["a"], eviction=None, deleting=True)
    assert bench.look(30.0) == []


def test_between_two_pods_passes_a_while():
    bench = Bench()
    bench.pod("a", 4)
    bench.pod("b", 3)
    bench.others = 65 * GIB
    assert bench.look() == ["a"]
    assert bench.look() == ["a"]
    bench.answer("a", "granted")
    bench.leave("a")
    bench.others += 4 * GIB
    assert bench.look(1.0) == []
    assert bench.look(REST_S[MEMORY]) == ["b"]


@pytest.mark.parametrize(
    "threshold", [{"enable": False}, {"memoryEvictThresholdPercent": 95}, {"memoryEvictLowerPercent": 90}]
)
def test_the_strategy_switches_it(threshold):
    bench = Bench(**threshold)
    bench.pod("a", 20)
    bench.others = 60 * GIB
    assert bench.look() == []
    assert bench.problem is None


def test_a_strategy_that_cannot_be_read_asks_for_nothing_and_says_so():
    bench = Bench(memoryEvictThresholdPercent="much")
    bench.pod("a", 20)
    bench.others = 60 * GIB
    assert bench.look() == []
    assert bench.problem.field == f"spec.{SECTION}"


def test_best_effort_pods_that_starve_are_let_go():
    bench = Bench(cpuEvictBESatisfactionLowerPercent=60, cpuEvictBESatisfactionUpperPercent=80)
    for uid in "abcd":
        bench.pod(uid, 1, cores=5.0)
    assert bench.look() == ["a", "b"]  # 20 cores of 40: 12 more are missing to four fifths of what was asked for
    assert {each.feature for each in bench.asks} == {"BECPUEvict"}
    assert bench.asks[0].counts == {BATCH_CPU: 10_000}


def test_more_requests_than_the_node_lends_are_taken_back():
    bench = Bench(
        cpuAllocatableEvictThresholdPercent=100,
        cpuAllocatableEvictLowerPercent=90,
        allocatableEvictPriorityThreshold=5_999,
    )
    labels = {LABEL_QOS: "BE", "koordinator.sh/eviction-enabled": "true"}
    for uid in "abcd":
        bench.pod(uid, 1, labels=labels)
    assert bench.look() == ["a", "b"]
    assert bench.asks[0].release == {BATCH_CPU: 13_000}


def test_a_pod_that_slo_does_not_know_is_nobodys_victim():
    bench = Bench()
    bench.pod("a", 20)
    bench.others = 60 * GIB
    del bench.told["a"]
    assert bench.look() == []


HOT = {"cpuEvictThresholdPercent": 80, "cpuEvictLowerPercent": 70, "evictEnabledPriorityThreshold": 5_999}
MAY_LEAVE = {LABEL_QOS: "BE", "koordinator.sh/eviction-enabled": "true"}


def test_a_look_without_the_use_of_the_node_asks_for_nobody():
    bench = Bench(**HOT)
    for uid in "abcd":
        bench.pod(uid, 1, cores=5.0, labels=MAY_LEAVE)
    bench.busy = 70.0
    assert bench.look() == ["a", "b", "c", "d"]
    for uid in "abcd":
        bench.answer(uid, "granted")
        bench.leave(uid)
    bench.pod("e", 1, cores=5.0, labels=MAY_LEAVE)
    bench.busy = None
    for _ in range(3):
        assert bench.look(REST_S[CPU]) == [], "what was measured long ago is no need of today"


def test_who_has_left_is_not_made_up_for_while_the_average_still_knows_it():
    bench = Bench(**HOT, cpuEvictTimeWindowSeconds=300)
    for uid in "ab":
        bench.pod(uid, 1, cores=25.0, labels=MAY_LEAVE)
    bench.busy = 40.0
    found = [bench.look() for _ in range(150)]
    assert found[-1] == ["a"]
    bench.answer("a", "granted")
    bench.leave("a")
    assert {uid for _ in range(100) for uid in bench.look()} == set()


def test_who_would_leave_in_vain_stays():
    bench = Bench(cpuEvictBESatisfactionLowerPercent=60, cpuEvictBESatisfactionUpperPercent=80)
    for uid in "abcdwxyz":
        bench.pod(uid, 1, cores=5.0, priority=5_500 if uid < "w" else 5_000)
        if uid >= "w":
            bench.told[uid] = replace(bench.told[uid], requests={})
    assert bench.look() == ["a", "b"], "others of lower priority have asked for nothing"
    bench = Bench()
    bench.others = 60 * GIB
    for uid in "ab":
        bench.pod(uid, 15)
    bench.unmeasured = {"a", "b"}
    assert bench.look() == [], "nobody knows what it would help"
