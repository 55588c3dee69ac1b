"""The kinds of runs in which planted bugs come up: small crowded clusters, and one kind of trouble each.

Each holds without a bug; what breaks in one of them is a defect of the code.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from tests.simulation.faults import Fault
from tests.simulation.planted.strikes import Saboteur
from tests.simulation.temper import Temper
from tests.simulation.workload import (
    GANG_LABEL,
    NAMESPACE,
    QUOTA_LABEL,
    Change,
    Create,
    Delete,
    Json,
    Size,
    Timed,
    _quota,
    node,
)

from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.kubelet import DURATION

Draw = Callable[[random.Random, float], list[Fault]]

CARDS: Final = 4
HOME: Final[Json] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
CARD: Final = PodRequest(500, 512, 1)
WRITER, SOLVER, WATCHER = "cluster-writer", "placement-solver", "cluster-watcher"

# --- replicas ---------------------------------------------------------------------------------------------------------


def one_each(rng: random.Random) -> Mapping[str, int]:
    """One replica of everything."""
    return {}


def two_solvers(rng: random.Random) -> Mapping[str, int]:
    """Two that share the work."""
    return {SOLVER: 2}


def two_writers(rng: random.Random) -> Mapping[str, int]:
    """A stand-by beside the writer."""
    return {WRITER: 2}


def two_of_both(rng: random.Random) -> Mapping[str, int]:
    """Two solvers, and a stand-by beside the writer."""
    return {SOLVER: 2, WRITER: 2}


# --- clusters and users -----------------------------------------------------------------------------------------------


def cards(rng: random.Random, size: Size) -> list[Json]:
    """A few nodes of four cards."""
    return [dict(HOME), *(each for number in range(size.nodes) for each in node(f"node-{number}", CARDS, number))]


def crowd(rng: random.Random, size: Size) -> list[Timed]:
    """Pods of one card, more than there is room for; they end, or are deleted, and others take their cards."""
    done: list[Timed] = []
    for number in range(size.singles):
        at_s = rng.uniform(3.0, size.end_s)
        request = CARD if rng.random() < 0.8 else PodRequest(500, 512, 1, 500)
        notes = {DURATION: f"{rng.uniform(3, 12):.1f}s"} if rng.random() < 0.7 else {}
        name = f"pod-{number}"
        done.append(Timed(at_s, Create(pod_manifest(name, request, namespace=NAMESPACE, annotations=notes))))
        if not notes:
            done.append(Timed(at_s + rng.uniform(2.0, 20.0), Delete("Pod", name, rng.choice((0, 30)))))
    return sorted(done, key=lambda timed: timed.at_s)


def successors(rng: random.Random, size: Size) -> list[Timed]:
    """Pods that are deleted soon and made again under their names, over and over; some wait for room meanwhile."""
    done: list[Timed] = []
    for number in range(size.singles):
        at_s, name = rng.uniform(3.0, size.end_s / 2), f"pod-{number}"
        while at_s < size.end_s:
            done.append(Timed(at_s, Create(pod_manifest(name, CARD, namespace=NAMESPACE))))
            at_s += rng.choice((0.01, 0.05, 0.3, 2.0, 6.0)) * rng.uniform(0.5, 1.5)
            done.append(Timed(at_s, Delete("Pod", name, 0)))
            at_s += rng.choice((0.001, 0.02, 0.5))
        done.append(Timed(at_s, Create(pod_manifest(name, CARD, namespace=NAMESPACE))))
    return sorted(done, key=lambda timed: timed.at_s)


def bursts(rng: random.Random, size: Size) -> list[Timed]:
    """All pods of a burst at once; whoever finds a card keeps it for a while."""
    done: list[Timed] = []
    for number in range(size.singles):
        at_s = 4.0 + 15.0 * rng.randrange(max(1, int(size.end_s / 15.0))) + rng.uniform(0.0, 0.2)
        notes = {DURATION: f"{rng.uniform(20, 40):.1f}s"}
        pod = pod_manifest(f"pod-{number}", CARD, namespace=NAMESPACE, annotations=notes)
        done.append(Timed(at_s, Create(pod)))
    return sorted(done, key=lambda timed: timed.at_s)


def _members(name: str, count: int, request: PodRequest, at_s: float, rng: random.Random) -> list[Timed]:
    group: Json = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minMember": count, "scheduleTimeoutSeconds": 600},
    }
    done = [Timed(at_s, Create(group))]
    for member in range(count):
        pod = pod_manifest(f"{name}-{member}", request, namespace=NAMESPACE, labels={GANG_LABEL: name})
        done.append(Timed(at_s + rng.uniform(0.0, 0.5), Create(pod)))
    return done


def large_gangs(rng: random.Random, size: Size) -> list[Timed]:
    """Gangs larger than a batch, deleted after a while; pods that want the same cards."""
    done = crowd(rng, size)
    for number in range(size.gangs):
        at_s, name, count = rng.uniform(3.0, size.end_s), f"gang-{number}", rng.choice((6, 8, 12))
        done += _members(name, count, PodRequest(200, 128, 1, 200), at_s, rng)
        gone_s = at_s + rng.uniform(8.0, 25.0)
        done += [Timed(gone_s, Delete("Pod", f"{name}-{member}", 0)) for member in range(count)]
    return sorted(done, key=lambda timed: timed.at_s)


def shrunk_gangs(rng: random.Random, size: Size) -> list[Timed]:
    """Gangs that lose a member for good just after all of them have come."""
    done: list[Timed] = []
    for number in range(size.gangs):
        at_s, name, count = rng.uniform(3.0, size.end_s), f"gang-{number}", rng.choice((2, 3, 4))
        done += _members(name, count, PodRequest(200, 128), at_s, rng)
        done.append(Timed(at_s + rng.uniform(0.5, 3.0), Delete("Pod", f"{name}-{rng.randrange(count)}", 0)))
    return sorted(done, key=lambda timed: timed.at_s)


def strangers(rng: random.Random, size: Size) -> list[Timed]:
    """Pods by processor time; and pods that somebody else puts on the nodes."""
    done: list[Timed] = []
    for number in range(size.singles):
        at_s, name = rng.uniform(3.0, size.end_s), f"pod-{number}"
        notes = {DURATION: f"{rng.uniform(5, 20):.1f}s"}
        request = PodRequest(4_000, 512)
        done.append(Timed(at_s, Create(pod_manifest(name, request, namespace=NAMESPACE, annotations=notes))))
    for number in range(size.singles // 2):
        at_s, name = rng.uniform(3.0, size.end_s), f"foreign-{number}"
        notes = {DURATION: f"{rng.uniform(10, 30):.1f}s"}
        pod = pod_manifest(name, PodRequest(4_000, 512), namespace=NAMESPACE, annotations=notes, scheduler="other")
        pod["spec"]["nodeName"] = f"node-{rng.randrange(size.nodes)}"
        done.append(Timed(at_s, Create(pod)))
    return sorted(done, key=lambda timed: timed.at_s)


def shared_quota(rng: random.Random, size: Size) -> list[Json]:
    """Many cards, and two groups whose parent may use a few of them only."""
    most = {"cpu": "100", "memory": "400Gi", "koordinator.sh/gpu-core": "600"}
    least = {"cpu": "1", "memory": "1Gi", "koordinator.sh/gpu-core": "100"}
    groups = [_quota("all", "", most, most), _quota("a", "all", least, most), _quota("b", "all", least, most)]
    return [*cards(rng, size), *groups]


def quota_users(rng: random.Random, size: Size) -> list[Timed]:
    """Waves of pods of one group, then of the other, so that runtime moves between them."""
    done: list[Timed] = []
    for number in range(size.singles):
        group = rng.choice("ab")
        wave = 10.0 * rng.randrange(max(1, int(size.end_s / 10.0))) + (5.0 if group == "b" else 0.0)
        at_s = 3.0 + wave + rng.uniform(0.0, 1.5)
        notes = {DURATION: f"{rng.uniform(2, 8):.1f}s"}
        pod = pod_manifest(f"pod-{number}", CARD, namespace=NAMESPACE, labels={QUOTA_LABEL: group}, annotations=notes)
        done.append(Timed(at_s, Create(pod)))
    return sorted(done, key=lambda timed: timed.at_s)


def lowered_quota(rng: random.Random, size: Size) -> list[Timed]:
    """A steady stream into one group, whose max is lowered now and then, and raised again."""
    done: list[Timed] = []
    at_s = 3.0
    for number in range(size.singles):
        at_s += rng.expovariate(size.singles / size.end_s)
        notes = {DURATION: f"{rng.uniform(6, 14):.1f}s"}
        pod = pod_manifest(f"pod-{number}", CARD, namespace=NAMESPACE, labels={QUOTA_LABEL: "a"}, annotations=notes)
        done.append(Timed(at_s, Create(pod)))
    at_s = 10.0
    while at_s < size.end_s:
        for cards_allowed, pause_s in ((4, 22.0), (14, 8.0)):
            amounts = {"cpu": "100", "memory": "400Gi", "koordinator.sh/gpu-core": str(100 * cards_allowed)}
            done.append(Timed(at_s, Change("ElasticQuota", "a", {"spec": {"max": amounts}})))
            at_s += pause_s
    return sorted(done, key=lambda timed: timed.at_s)


def one_quota(rng: random.Random, size: Size) -> list[Json]:
    """Many cards, and a group that may use fourteen of them."""
    most = {"cpu": "100", "memory": "400Gi", "koordinator.sh/gpu-core": "1400"}
    least = {"cpu": "1", "memory": "1Gi", "koordinator.sh/gpu-core": "100"}
    return [*cards(rng, size), _quota("a", "", least, most)]


# --- faults -----------------------------------------------------------------------------------------------------------


def every(seconds: float, *draws: Draw, start_s: float = 6.0) -> Callable[[random.Random, float], list[Fault]]:
    """One of these groups of faults about every so many seconds."""

    def schedule(rng: random.Random, end_s: float) -> list[Fault]:
        found: list[Fault] = []
        at_s = start_s + rng.uniform(0.0, seconds)
        while at_s < end_s:
            found += rng.choice(draws)(rng, at_s)
            at_s += seconds * rng.uniform(0.6, 1.4)
        return sorted(found)

    return schedule


def nothing(rng: random.Random, at_s: float) -> list[Fault]:
    """All is well."""
    return []


def late(target: str, most_s: float, for_s: float = 6.0) -> Draw:
    """A view that lags for a while."""
    return lambda rng, at_s: [Fault(at_s, "late view", target, most_s, for_s * rng.uniform(0.5, 1.5))]


def killed(service: str) -> Draw:
    """A process, at any step."""
    return lambda rng, at_s: [Fault(at_s, "kill", service, rng.choice((0, 3, 30, 100)))]


def paused(service: str, *seconds: float) -> Draw:
    """A process stands still."""
    return lambda rng, at_s: [Fault(at_s, "pause", service, for_s=rng.choice(seconds) * rng.uniform(0.8, 1.2))]


def slow_bus(most_s: float, for_s: float) -> Draw:
    """Every message takes its time."""
    return lambda rng, at_s: [Fault(at_s, "bus slow", amount=most_s, for_s=for_s)]


def halves(rng: random.Random, at_s: float) -> list[Fault]:
    """A solver reads batches by halves."""
    return [Fault(at_s, "half batches", f"{SOLVER}:berth_ledger", 0.5, 8.0)]


def loss(*, kill_after_s: tuple[float, float] | None) -> Draw:
    """STATE stands still; meanwhile the ledger loses its tail, and the writer may be killed soon after."""

    def draw(rng: random.Random, at_s: float) -> list[Fault]:
        lost_s = at_s + rng.uniform(0.3, 4.0)
        found = [
            Fault(at_s, "pause", WATCHER, for_s=rng.uniform(12.0, 18.0)),
            Fault(lost_s, "tail lost", "berth_ledger", rng.choice((3, 6, 12, 24))),
        ]
        if kill_after_s is not None:
            found.append(Fault(lost_s + rng.uniform(*kill_after_s), "kill", WRITER, rng.choice((0, 0, 10, 60))))
        return found

    return draw


def leases_fail(rng: random.Random, at_s: float) -> list[Fault]:
    """No wave can begin for a while, and everything else goes on."""
    return [Fault(at_s, "leases fail", for_s=rng.uniform(14.0, 20.0))]


def slow_binds_and_loss(rng: random.Random, at_s: float) -> list[Fault]:
    """Binds are on their way while the ledger loses its tail."""
    return [
        Fault(at_s, "binds slow", amount=8.0, for_s=6.0),
        Fault(at_s + rng.uniform(0.5, 6.0), "tail lost", "berth_ledger", rng.choice((3, 12, 40))),
    ]


def lost_binds(rng: random.Random, at_s: float) -> list[Fault]:
    """Binds without an answer."""
    return [Fault(at_s, "binds lost", amount=0.6, for_s=4.0)]


def api_trouble(rng: random.Random, at_s: float) -> list[Fault]:
    """The API server fails, and the writer is killed."""
    return [
        Fault(at_s, "api errors", "503", 1.0, rng.uniform(2.0, 5.0)),
        Fault(at_s + rng.uniform(0.0, 3.0), "kill", WRITER, rng.choice((0, 10, 60))),
    ]


# --- tempers ----------------------------------------------------------------------------------------------------------

SHORT: Final = Temper(
    end_s=70.0,
    whole_s=80.0,
    settle_s=90.0,
    size=Size(nodes=3, singles=110),
    cluster=cards,
    actions=crowd,
    faults=every(5.0, nothing),
    replicas=one_each,
    striker=Saboteur,
)
QUIET: Final = SHORT
LATE_LEDGER: Final = replace(
    SHORT,
    replicas=two_solvers,
    faults=every(4.0, late(f"{SOLVER}:berth_ledger", 1.5), killed(SOLVER)),
)
LATE_STATE: Final = replace(
    SHORT,
    replicas=two_solvers,
    faults=every(4.0, late(f"{SOLVER}:berth_state", 3.0), killed(SOLVER)),
)
SOLVERS_COME_AND_GO: Final = replace(
    SHORT,
    replicas=two_solvers,
    faults=every(6.0, killed(SOLVER), late(f"{SOLVER}:berth_ledger", 2.0), paused(SOLVER, 7.0, 9.0)),
)
SUCCESSORS: Final = replace(
    LATE_STATE,
    size=Size(nodes=2, singles=16),
    actions=successors,
    faults=every(3.0, late(f"{SOLVER}:berth_state", 3.0, 8.0)),
)
SUCCESSORS_LATE: Final = replace(
    SUCCESSORS,
    replicas=one_each,
    faults=every(4.0, late(f"{WRITER}:berth_ledger", 2.0), slow_bus(0.5, 4.0), paused(WRITER, 0.5, 2.0)),
)
HALVES: Final = replace(SHORT, replicas=two_solvers, faults=every(6.0, halves))
BINDS_AND_LOSS: Final = replace(SHORT, faults=every(12.0, slow_binds_and_loss))
LOST_BINDS: Final = replace(SHORT, faults=every(8.0, lost_binds))
STAGES: Final = replace(
    SHORT,
    size=Size(nodes=3, singles=50, gangs=14),
    actions=large_gangs,
    replicas=two_solvers,
    environ={SOLVER: {"BERTH_BATCH_MESSAGES_MAX": "8"}},
    constants={"berth.placement_solver.tidying.ABANDONED_AFTER_S": 3.0},
)
STAGES_CONTENDED: Final = replace(STAGES, faults=every(6.0, slow_bus(0.4, 6.0)))
STAGES_STOPPED: Final = replace(
    STAGES, faults=every(5.0, slow_bus(1.0, 6.0), paused(SOLVER, 9.0, 12.0), killed(SOLVER)), end_s=90.0, whole_s=100.0
)
SHRUNK_GANGS: Final = replace(
    SHORT,
    size=Size(nodes=3, gangs=25),
    actions=shrunk_gangs,
    faults=every(25.0, leases_fail),
)
LOSSES: Final = replace(
    SHORT,
    size=Size(nodes=4, singles=90),
    actions=bursts,
    environ={SOLVER: {"BERTH_BATCH_PODS_MAX": "1", "BERTH_BATCH_GAP_S": "0.5"}},
    faults=every(15.0, loss(kill_after_s=(0.0, 0.5)), start_s=-5.0),
    end_s=80.0,
)
LOSSES_LATER: Final = replace(LOSSES, faults=every(15.0, loss(kill_after_s=(1.5, 6.0)), start_s=-5.0))
LOSSES_ALONE: Final = replace(LOSSES, faults=every(15.0, loss(kill_after_s=None), start_s=-5.0))
LOSSES_OF_TWO: Final = replace(
    LOSSES_ALONE, replicas=two_solvers, environ={}, faults=every(15.0, loss(kill_after_s=None))
)
STRANGERS: Final = replace(
    SHORT, size=Size(nodes=3, singles=60), actions=strangers, faults=every(26.0, leases_fail), end_s=90.0, whole_s=100.0
)
LATE_WRITER: Final = replace(SHORT, faults=every(4.0, late(f"{WRITER}:berth_state", 2.5)))
TWO_GROUPS: Final = replace(
    SHORT,
    size=Size(nodes=6, singles=110),
    cluster=shared_quota,
    actions=quota_users,
    replicas=two_solvers,
    faults=every(4.0, late(f"{SOLVER}:berth_ledger", 1.0), nothing),
)
LOWERED: Final = replace(
    SHORT,
    size=Size(nodes=6, singles=130),
    cluster=one_quota,
    actions=lowered_quota,
    replicas=two_solvers,
    faults=every(12.0, late(f"{SOLVER}:berth_quota", 60.0, 25.0)),
    end_s=90.0,
    whole_s=100.0,
)
API_TROUBLE: Final = replace(SHORT, size=Size(nodes=1, singles=60), faults=every(6.0, api_trouble))
SLOW_WRITER: Final = replace(SHORT, faults=every(8.0, paused(WRITER, 2.0, 6.0)))
