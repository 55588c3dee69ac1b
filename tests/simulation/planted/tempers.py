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


BURST_EVERY_S: Final = 30.0


def bursts(rng: random.Random, size: Size) -> list[Timed]:
    """All pods of a burst at once; whoever finds a card keeps it until the next burst is near."""
    done: list[Timed] = []
    for number in range(size.singles):
        at_s = 4.0 + BURST_EVERY_S * (number % int(size.end_s / BURST_EVERY_S)) + rng.uniform(0.0, 2.5)
        notes = {DURATION: f"{rng.uniform(13, 16):.1f}s"}
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


LOWERED_S: Final = (8.0, 38.0, 68.0)
LOWERED_FOR_S: Final = 26.0


def lowered_quota(rng: random.Random, size: Size) -> list[Timed]:
    """A group that may use less for a while. Pods come when everybody can have heard of it, and are gone before the
    group may use more again."""
    done: list[Timed] = []
    for cycle, at_s in enumerate(LOWERED_S):
        done.append(Timed(at_s, Change("ElasticQuota", "a", {"spec": _cards_allowed(8)})))
        done.append(Timed(at_s + LOWERED_FOR_S, Change("ElasticQuota", "a", {"spec": _cards_allowed(20)})))
        for number in range(size.singles // len(LOWERED_S)):
            name = f"pod-{cycle}-{number}"
            pod = pod_manifest(name, CARD, namespace=NAMESPACE, labels={QUOTA_LABEL: "a"})
            done.append(Timed(at_s + 11.0 + rng.uniform(0.0, 7.0), Create(pod)))
            done.append(Timed(at_s + LOWERED_FOR_S - 2.0, Delete("Pod", name, 0)))
    return sorted(done, key=lambda timed: timed.at_s)


def _cards_allowed(count: int) -> dict[str, dict[str, str]]:
    amounts = {"cpu": "100", "memory": "400Gi", "koordinator.sh/gpu-core": str(100 * count)}
    return {"min": amounts, "max": amounts}


def one_quota(rng: random.Random, size: Size) -> list[Json]:
    """A group that may use twenty cards, and lends none of them."""
    allowed = _cards_allowed(20)
    made = _quota("a", "", allowed["min"], allowed["max"])
    made["metadata"]["labels"]["quota.scheduling.koordinator.sh/is-parent"] = "false"
    made["metadata"]["labels"]["quota.scheduling.koordinator.sh/allow-lent-resource"] = "false"
    return [*cards(rng, size), made]


def queuers(rng: random.Random, size: Size) -> list[Timed]:
    """Pods that stay for good, more than there is room for: most of them have to be told so."""
    made = [pod_manifest(f"pod-{number}", CARD, namespace=NAMESPACE) for number in range(size.singles)]
    return sorted((Timed(rng.uniform(3.0, size.end_s), Create(pod)) for pod in made), key=lambda timed: timed.at_s)


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


def losses(*, kill_after_s: tuple[float, float] | None) -> Callable[[random.Random, float], list[Fault]]:
    """While the pods of a burst are being bound STATE stands still, and the ledger loses its tail; the writer may be
    killed soon after."""

    def schedule(rng: random.Random, end_s: float) -> list[Fault]:
        found: list[Fault] = []
        burst_s = 4.0
        while burst_s < end_s:
            at_s = burst_s + rng.uniform(1.0, 3.0)
            lost_s = at_s + rng.uniform(0.7, 2.0)
            # Plans follow each other slowly, so that many pods wait while some are bound.
            found.append(Fault(burst_s, "bus slow", amount=0.4, for_s=9.0))
            found.append(Fault(at_s, "pause", WATCHER, for_s=rng.uniform(10.0, 14.0)))
            found.append(Fault(lost_s, "tail lost", "berth_ledger", rng.choice((3, 6, 9, 12))))
            if kill_after_s is not None:
                found.append(Fault(lost_s + rng.uniform(*kill_after_s), "all killed", WRITER, rng.choice((0, 10, 60))))
            burst_s += BURST_EVERY_S
        return sorted(found)

    return schedule


def alone(rng: random.Random, at_s: float) -> list[Fault]:
    """A solver comes back, believes itself alone, and the other learns late of what it decides."""
    return [
        Fault(at_s, "kill", SOLVER),
        *(Fault(at_s + 0.1 * number, "late view", f"{SOLVER}:berth_ledger", 2.0, 7.0) for number in range(2)),
    ]


def quota_late(rng: random.Random, end_s: float) -> list[Fault]:
    """One solver does not hear that the group may use less."""
    return [Fault(at_s - 1.0, "late view", f"{SOLVER}:berth_quota", 60.0, LOWERED_FOR_S - 3.0) for at_s in LOWERED_S]


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
    size=Size(nodes=6, singles=140),
    replicas=two_solvers,
    faults=every(7.0, alone, alone, paused(SOLVER, 7.0, 9.0)),
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
    STAGES,
    faults=every(6.0, slow_bus(1.0, 6.0), slow_bus(1.5, 6.0), paused(SOLVER, 2.0, 8.0), killed(SOLVER)),
    constants={"berth.placement_solver.tidying.ABANDONED_AFTER_S": 1.0},
)
SHRUNK_GANGS: Final = replace(
    SHORT,
    size=Size(nodes=3, gangs=25),
    actions=shrunk_gangs,
    faults=every(25.0, leases_fail),
)
LOSSES_ALONE: Final = replace(
    SHORT,
    size=Size(nodes=6, singles=105),
    actions=bursts,
    replicas=two_solvers,
    environ={SOLVER: {"BERTH_BATCH_PODS_MAX": "1"}},
    faults=losses(kill_after_s=None),
    end_s=95.0,
    whole_s=100.0,
)
LOSSES_OF_TWO: Final = LOSSES_ALONE
LOSSES_ALONE = replace(LOSSES_ALONE, replicas=one_each)
LOSSES: Final = replace(LOSSES_ALONE, faults=losses(kill_after_s=(0.0, 0.3)))
LOSSES_LATER: Final = replace(LOSSES_ALONE, faults=losses(kill_after_s=(1.3, 2.6)))
STRANGERS: Final = replace(
    SHORT, size=Size(nodes=3, singles=60), actions=strangers, faults=every(26.0, leases_fail), end_s=90.0, whole_s=100.0
)
LATE_WRITER: Final = replace(SHORT, faults=every(4.0, late(f"{WRITER}:berth_state", 2.5)))
TWO_GROUPS: Final = replace(
    SHORT,
    size=Size(nodes=6, singles=150),
    cluster=shared_quota,
    actions=quota_users,
    replicas=two_solvers,
    faults=every(4.0, late(f"{SOLVER}:berth_quota", 4.0), late(f"{SOLVER}:berth_ledger", 1.5)),
)
LOWERED: Final = replace(
    SHORT,
    size=Size(nodes=6, singles=84),
    cluster=one_quota,
    actions=lowered_quota,
    replicas=two_solvers,
    faults=quota_late,
    end_s=100.0,
    whole_s=105.0,
)
API_TROUBLE: Final = replace(
    SHORT, size=Size(nodes=1, singles=40), actions=queuers, faults=every(5.0, api_trouble), end_s=40.0, whole_s=45.0
)
SLOW_WRITER: Final = replace(SHORT, faults=every(8.0, paused(WRITER, 2.0, 6.0)))
