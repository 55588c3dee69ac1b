"""Small clusters and their users, each for one kind of situation: what is there, and what happens, as plain data."""

from __future__ import annotations

import random
from typing import Final

from tests.simulation import pools
from tests.simulation.actions import forged
from tests.simulation.workload import (
    GANG_LABEL,
    MODEL,
    NAMESPACE,
    QUOTA_LABEL,
    Change,
    Create,
    Delete,
    Json,
    Put,
    Size,
    Timed,
    _quota,
    node,
    strategy_manifest,
)

from berth.simcluster.generate.build import PodRequest, device_manifest, pod_manifest
from berth.simcluster.kubelet import DURATION

CARDS: Final = 4
HOME: Final[Json] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
CARD: Final = PodRequest(500, 512, 1)


def cards(rng: random.Random, size: Size) -> list[Json]:
    """A few nodes of four cards."""
    return [dict(HOME), *(each for number in range(size.nodes) for each in node(f"node-{number}", CARDS, number))]


def crowd(rng: random.Random, size: Size) -> list[Timed]:
    """Pods of one card, more than there is capacity for; they end, or are deleted, and others take their cards."""
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


def pooled(rng: random.Random, size: Size) -> list[Timed]:
    """Pods of a pool of nodes among others."""
    return sorted([*crowd(rng, size), *pools.always(rng, size)], key=lambda timed: timed.at_s)


def wear(rng: random.Random, size: Size) -> list[Timed]:
    """The crowd; each node loses a card or is cordoned, for longer than it takes everybody to see it."""
    done = crowd(rng, size)
    for number in range(size.nodes):
        at_s, name = rng.uniform(5.0, size.end_s / 2), f"node-{number}"
        back_s = at_s + rng.uniform(20.0, 30.0)
        if rng.random() < 0.5:
            done.append(Timed(at_s, Change("Node", name, {"spec": {"unschedulable": True}})))
            done.append(Timed(back_s, Change("Node", name, {"spec": {"unschedulable": None}})))
        else:
            devices = device_manifest(name, MODEL, CARDS)["spec"]["devices"]
            worn = [{**each, "health": each["minor"] != number % CARDS} for each in devices]
            done.append(Timed(at_s, Change("Device", name, {"spec": {"devices": worn}})))
            done.append(Timed(back_s, Change("Device", name, {"spec": {"devices": devices}})))
    return sorted(done, key=lambda timed: timed.at_s)


def worn_out(rng: random.Random, size: Size) -> list[Timed]:
    """The crowd; each node loses a card early, and most of the run lies before it has one again."""
    done = crowd(rng, size)
    for number in range(size.nodes):
        at_s, name = rng.uniform(5.0, 10.0), f"node-{number}"
        devices = device_manifest(name, MODEL, CARDS)["spec"]["devices"]
        worn = [{**each, "health": each["minor"] != number % CARDS} for each in devices]
        done.append(Timed(at_s, Change("Device", name, {"spec": {"devices": worn}})))
        done.append(Timed(at_s + rng.uniform(50.0, 60.0), Change("Device", name, {"spec": {"devices": devices}})))
    return sorted(done, key=lambda timed: timed.at_s)


def successors(rng: random.Random, size: Size) -> list[Timed]:
    """Pods that are deleted soon and made again under their names, over and over; some wait for capacity meanwhile."""
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


def contended(rng: random.Random, size: Size) -> list[Timed]:
    """Single pods and a gang wait for a node that is cordoned, now and then: there is room for the single ones, or for
    the gang and some of them. More come while that is thought about; all end soon."""
    done: list[Timed] = []
    for number in range(size.gangs):
        at_s, name = 4.0 + number * (size.end_s - 4.0) / size.gangs, f"b-{number}"
        done.append(Timed(at_s - 0.7, Change("Node", "node-0", {"spec": {"unschedulable": True}})))
        done += _members(name, CARDS - 1, CARD, at_s, rng)
        done += [_ending(f"a-{number}-{single}", CARD, at_s, rng) for single in range(CARDS - 1)]
        begins_s, half = at_s + 2.2, PodRequest(500, 512, 1, 400)
        done.append(Timed(begins_s, Change("Node", "node-0", {"spec": {"unschedulable": None}})))
        done += [_ending(f"c-{number}-{late}", half, begins_s + rng.uniform(0.1, 1.5), rng) for late in range(2)]
        gone_s = begins_s + rng.uniform(2.4, 2.8)
        done += [Timed(gone_s, Delete("Pod", f"{name}-{member}", 0)) for member in range(CARDS - 1)]
    return sorted(done, key=lambda timed: timed.at_s)


def uneven(rng: random.Random, size: Size) -> list[Json]:
    """A node of four cards and one of two."""
    return [dict(HOME), *node("node-0", CARDS, 0), *node("node-1", CARDS // 2, 1)]


def contended_gangs(rng: random.Random, size: Size) -> list[Timed]:
    """Now and then two gangs wait for the larger of these nodes, which is cordoned: there is room for the one that has
    come first, or for the larger one, of which any member may lie on either node."""
    done: list[Timed] = []
    for number in range(size.gangs):
        at_s = 4.0 + number * (size.end_s - 4.0) / size.gangs
        done.append(Timed(at_s - 0.7, Change("Node", "node-0", {"spec": {"unschedulable": True}})))
        begins_s = at_s + 3.4
        gone_s = begins_s + rng.uniform(1.2, 1.4)
        for name, members in ((f"a-{number}", CARDS - 1), (f"b-{number}", CARDS + 1)):
            done += _members(name, members, CARD, at_s, rng)
            done += [Timed(gone_s, Delete("Pod", f"{name}-{member}", 0)) for member in range(members)]
            at_s += 0.6
        done.append(Timed(begins_s, Change("Node", "node-0", {"spec": {"unschedulable": None}})))
    return sorted(done, key=lambda timed: timed.at_s)


def _ending(name: str, request: PodRequest, at_s: float, rng: random.Random) -> Timed:
    notes = {DURATION: f"{rng.uniform(1.5, 3.0):.1f}s"}
    return Timed(at_s, Create(pod_manifest(name, request, namespace=NAMESPACE, annotations=notes)))


def larger_gangs(rng: random.Random, size: Size) -> list[Timed]:
    """Gangs of many stages, deleted after a while."""
    done: list[Timed] = []
    for number in range(size.gangs):
        at_s, name, count = rng.uniform(3.0, size.end_s), f"gang-{number}", rng.choice((18, 24))
        done += _members(name, count, PodRequest(100, 128), at_s, rng)
        gone_s = at_s + rng.uniform(12.0, 25.0)
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
    done += (_foreign(rng, size, number) for number in range(size.singles // 2))
    return sorted(done, key=lambda timed: timed.at_s)


def _foreign(rng: random.Random, size: Size, number: int) -> Timed:
    """A pod that another scheduler has put on a node."""
    at_s, name = rng.uniform(3.0, size.end_s), f"foreign-{number}"
    notes = {DURATION: f"{rng.uniform(10, 30):.1f}s"}
    pod = pod_manifest(name, PodRequest(4_000, 512), namespace=NAMESPACE, annotations=notes, scheduler="other")
    pod["spec"]["nodeName"] = f"node-{rng.randrange(size.nodes)}"
    return Timed(at_s, Create(pod))


def forgers(rng: random.Random, size: Size) -> list[Timed]:
    """The crowd, and pods of another scheduler; every second one claims in its notes what nobody gave it."""
    done = [*crowd(rng, size), *(_foreign(rng, size, number) for number in range(size.singles // 4))]
    for timed in done:
        if isinstance(timed.action, Create) and rng.random() < 0.5:
            timed.action.manifest["metadata"].setdefault("annotations", {}).update(forged(rng))
    return sorted(done, key=lambda timed: timed.at_s)


def shared_quota(rng: random.Random, size: Size) -> list[Json]:
    """Many cards. Two groups say nothing of cards; their parent may use six."""
    plain = {"cpu": "100", "memory": "400Gi"}
    most = {**plain, "koordinator.sh/gpu-core": "600"}
    return [*cards(rng, size), _quota("all", "", most, most), *(_quota(name, "all", plain, plain) for name in "ab")]


def quota_users(rng: random.Random, size: Size) -> list[Timed]:
    """Pods of both groups, more than there is quota for."""
    done: list[Timed] = []
    for number in range(size.singles):
        labels, notes = {QUOTA_LABEL: rng.choice("ab")}, {DURATION: f"{rng.uniform(1.5, 4):.1f}s"}
        pod = pod_manifest(f"pod-{number}", CARD, namespace=NAMESPACE, labels=labels, annotations=notes)
        done.append(Timed(rng.uniform(3.0, size.end_s), Create(pod)))
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


def appearing_limit(rng: random.Random, size: Size) -> list[Timed]:
    """A parent that says nothing of cards, and then allows eight; otherwise as `lowered_quota`."""
    done: list[Timed] = []
    for cycle, at_s in enumerate(LOWERED_S):
        for moment_s, most in ((at_s, "800"), (at_s + LOWERED_FOR_S, None)):
            limit = {"spec": {"max": {"koordinator.sh/gpu-core": most}}}
            done.append(Timed(moment_s, Change("ElasticQuota", "all", limit)))
        for number in range(size.singles // len(LOWERED_S)):
            name = f"pod-{cycle}-{number}"
            pod = pod_manifest(name, CARD, namespace=NAMESPACE, labels={QUOTA_LABEL: rng.choice("ab")})
            done.append(Timed(at_s + 11.0 + rng.uniform(0.0, 7.0), Create(pod)))
            done.append(Timed(at_s + LOWERED_FOR_S - 2.0, Delete("Pod", name, 0)))
    return sorted(done, key=lambda timed: timed.at_s)


def open_quota(rng: random.Random, size: Size) -> list[Json]:
    """Two groups that say nothing of cards below a parent that says nothing at all."""
    plain = {"cpu": "100", "memory": "400Gi"}
    return [*cards(rng, size), _quota("all", "", {}, {}), *(_quota(name, "all", plain, plain) for name in "ab")]


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
    """Pods that stay for good, more than there is capacity for: most of them have to be told so."""
    made = [pod_manifest(f"pod-{number}", CARD, namespace=NAMESPACE) for number in range(size.singles)]
    return sorted((Timed(rng.uniform(3.0, size.end_s), Create(pod)) for pod in made), key=lambda timed: timed.at_s)


def strategy(rng: random.Random, size: Size) -> list[Timed]:
    """Best-effort pods are held from the beginning, under a threshold that stays."""
    held = strategy_manifest(enable=True, percent=rng.randrange(40, 90))
    return [Timed(1.0, Put(held)), *crowd(rng, size)]


def strategy_withdrawn(rng: random.Random, size: Size) -> list[Timed]:
    """Best-effort pods are held, let go, held again; at the end nothing is to hold them."""
    done = crowd(rng, size)
    for number in range(4):
        made = strategy_manifest(enable=number % 2 == 0, percent=rng.randrange(40, 90), policy="cpuset")
        done.append(Timed(1.0 + number * (size.end_s - 10.0) / 3, Put(made)))
    return sorted(done, key=lambda timed: timed.at_s)
