"""What users do in one run, drawn from its seed: a list of timed actions, plain data.

Singles, shared GPUs, Reservations with their users, pods that end, are deleted, or are made again under the same name,
pods that somebody else puts on nodes; gangs (`gangs`), pods that must be apart or together (`mates`), claims and who
uses them (`volumes`), ReplicaSets and pods that must stay (`owned`), and nodes and quota groups that change
(`changes`).
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime

from tests.simulation import changes, gangs, gathers, inside, mates, owned, pools, schedules, volumes
from tests.simulation.workload import (
    GROUPS,
    NAMESPACE,
    OWNER_LABEL,
    PRIORITIES,
    QUOTA_LABEL,
    Change,
    Create,
    Delete,
    Json,
    Place,
    Put,
    Size,
    Timed,
    strategy_manifest,
)

from berth.contracts import names
from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.kubelet import DURATION
from berth.testing.simulation.world import EPOCH_S

CARDS_CLAIMED = 8
WHOLE_CARD = (names.GPU_CORE, names.GPU_MEMORY_RATIO)
STRANGERS_LEAVE_S = 68.0
"""So long after the end of all that users do pods of other schedulers have ended: before it is asked who holds what."""


def actions(rng: random.Random, size: Size) -> list[Timed]:
    """Everything that users and nodes do, in order of time."""
    done: list[Timed] = []
    for number in range(size.singles):
        done += _single(rng, size, number)
    for number in range(size.gangs):
        done += gangs.draw(rng, size, number)
    for number in range(size.reservations):
        done += _reservation(rng, size, number)
    for number in range(rng.choice((0, 0, size.strangers))):
        done += _stranger(rng, size, number)
    for number in range(rng.choice((0, size.strangers))):
        done += _stranger(rng, size, size.strangers + number, gpus=1, most_s=120.0)
    done += changes.nodes(rng, size)
    done += changes.quotas(rng, size)
    done += _strategies(rng, size)
    done += _relabelled(rng, size)
    done += changes.serving(rng, size)
    for number in range(size.mates):
        done += mates.draw(rng, size, number)
    done += mates.zones(rng, size)
    for number in range(size.claims):
        done += volumes.draw(rng, size, number)
    for number in range(size.sets):
        done += owned.draw(rng, size, number)
        done += owned.gated(rng, size, number)
        done.append(owned.mirror(rng, size, number))
    done += [
        owned.protected_later(rng, name, rng.uniform(0.0, size.end_s))
        for name in _singles(done)[:: size.singles // 4 or 1]
    ]
    if size.ranked:
        _rank(rng, done, size.ranked)
    done += inside.beside(random.Random(rng.random()), size)
    done += gathers.draw(random.Random(rng.random()), size)
    done += pools.draw(random.Random(rng.random()), size)
    done += schedules.some(rng, size)
    return sorted(done, key=lambda timed: timed.at_s)


def _rank(rng: random.Random, done: list[Timed], share: float) -> None:
    """Some single pods are of another priority than all others."""
    classes = {name: rng.choice(sorted(PRIORITIES)) for name in _singles(done) if rng.random() < share}
    for _, action in done:
        if isinstance(action, Create) and action.manifest["metadata"]["name"] in classes:
            action.manifest["spec"]["priorityClassName"] = classes[action.manifest["metadata"]["name"]]


def _singles(done: list[Timed]) -> list[str]:
    made = [timed.action.manifest for timed in done if isinstance(timed.action, Create)]
    return sorted({each["metadata"]["name"] for each in made if each["metadata"]["name"].startswith("pod-")})


def _request(rng: random.Random) -> PodRequest:
    cpu, memory = rng.choice((500, 1_000, 2_000, 4_000)), rng.choice((512, 2_048, 8_192))
    kind = rng.random()
    if kind < 0.3:
        return PodRequest(cpu, memory)
    if kind < 0.65:
        return PodRequest(cpu, memory, 1, rng.choice((200, 250, 500, 600, 800)))
    return PodRequest(cpu, memory, rng.choice((1, 1, 2, 4)))


def _single(rng: random.Random, size: Size, number: int) -> list[Timed]:
    """A pod; it may end by itself, be deleted, or be deleted and made again under its name."""
    at_s = rng.uniform(0.0, size.end_s)
    labels = {QUOTA_LABEL: rng.choice(GROUPS)} if rng.random() < 0.4 else {}
    if labels and rng.random() < 0.2:
        labels[names.LABEL_QUOTA_PREEMPTIBLE] = "false"
    notes = {DURATION: f"{rng.uniform(5, 90):.1f}s"} if rng.random() < 0.35 else {}
    if rng.random() < 0.1:
        notes |= forged(rng)
    name = f"pod-{number}"

    def make() -> Create:
        return Create(pod_manifest(name, _request(rng), namespace=NAMESPACE, labels=labels, annotations=notes))

    done = [Timed(at_s, make())]
    if rng.random() < 0.35:
        gone_s = at_s + rng.choice((0.02, 0.2, 1.0, 5.0, 40.0)) * rng.uniform(0.5, 2.0)
        grace_s = rng.choice((0, 0, 30))
        done.append(Timed(gone_s, Delete("Pod", name, grace_s)))
        if rng.random() < 0.5:
            done.append(Timed(gone_s + rng.choice((0.001, 0.05, 1.0)) + (1.0 if grace_s else 0.0), make()))
    return done


def _reservation(rng: random.Random, size: Size, number: int) -> list[Timed]:
    """A Reservation of a card, its users before, at, and after its time, and maybe its end while it is used."""
    at_s, name = rng.uniform(0.0, size.end_s * 0.7), f"kept-{number}"
    request, users = PodRequest(2_000, 4_096, 1), rng.choice((1, 1, 2, 3))
    made: Json = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"namespace": NAMESPACE}, "spec": request.spec()},
            "owners": [{"labelSelector": {"matchLabels": {OWNER_LABEL: name}}}],
            "ttl": f"{rng.choice((4, 12, 20, 60, 3_600, 3_600))}s",
            "allocateOnce": rng.random() < 0.5 and users == 1,
        },
    }
    if users == 2:
        # Sooner or later than its ttl: what comes first counts.
        made["spec"]["expires"] = _moment(at_s + 30.0)
    demands = Demands(name, at_s)
    demands.put_on(made)
    done = [Timed(at_s, Create(made))]
    small = PodRequest(500, 512, 1, 300)
    for user in range(users):
        pod = pod_manifest(
            f"{name}-user-{user}",
            small if users > 1 else request,
            namespace=NAMESPACE,
            labels={OWNER_LABEL: name},
            annotations={DURATION: f"{rng.uniform(5, 60):.1f}s"} if rng.random() < 0.5 else {},
        )
        pod["metadata"].setdefault("annotations", {}).update(demands.wishes(user))
        done.append(Timed(max(0.0, at_s + rng.uniform(-3.0, 30.0)), Create(pod)))
    done += demands.borrowers(at_s)
    if rng.random() < 0.35:
        # Some time in which its users come and are bound.
        gone_s = at_s + rng.uniform(1.0, 40.0)
        done.append(Timed(gone_s, Delete("Reservation", name, 0)))
        if rng.random() < 0.5:
            done.append(Timed(gone_s + rng.choice((0.01, 1.0, 10.0)), Create(made)))
    return done


class Demands:
    """What a Reservation demands of its users, and what those say about it; drawn beside everything else."""

    def __init__(self, name: str, at_s: float) -> None:
        self._rng = random.Random(f"{name} {at_s}")
        self._name = name
        self._is_tainted = self._rng.random() < 0.2

    def put_on(self, made: Json) -> None:
        """Policy, order, a limit of pods, an inner part, a taint."""
        draw, spec = self._rng.random, made["spec"]
        spec["allocatePolicy"] = self._rng.choice(("Aligned", "Restricted", "Restricted"))
        notes: Json = {}
        if draw() < 0.3:
            notes[names.ANNOTATION_NODE_RESERVATION] = '{"resources":{"cpu":"700m"}}'
        if draw() < 0.3:
            notes[names.ANNOTATION_RESERVATION_RESTRICTED] = '{"resources":["cpu"]}'
        if draw() < 0.3:
            spec["template"]["spec"]["containers"][0]["resources"]["requests"]["pods"] = str(self._rng.choice((1, 2)))
        if self._is_tainted:
            spec["taints"] = [{"key": "kept", "effect": "NoSchedule"}]
        made["metadata"] |= {
            "annotations": notes,
            "labels": {names.LABEL_RESERVATION_ORDER: self._rng.choice(("", "1", "-2", "x"))},
        }

    def borrowers(self, at_s: float) -> list[Timed]:
        """Pods that may fill what is idle of it, one of them protected from being made to leave."""
        done: list[Timed] = []
        for number in range(self._rng.choice((0, 0, 1, 2))):
            labels = {names.LABEL_RESERVATION_IGNORED: "true"}
            if self._rng.random() < 0.2:
                labels[names.LABEL_DISABLE_PREEMPTIBLE] = "true"
            size = self._rng.choice((PodRequest(1_000, 1_024, 1), PodRequest(1_500, 2_048, 0)))
            notes = {DURATION: f"{self._rng.uniform(10, 60):.1f}s"}
            pod = pod_manifest(
                f"{self._name}-borrower-{number}", size, namespace=NAMESPACE, labels=labels, annotations=notes
            )
            done.append(Timed(at_s + self._rng.uniform(0.5, 15.0), Create(pod)))
        return done

    def wishes(self, user: int) -> dict[str, str]:
        """Annotations of a user."""
        wishes: dict[str, str] = {}
        if self._is_tainted and user != 1:
            wishes[names.ANNOTATION_RESERVATION_AFFINITY] = '{"tolerations":[{"key":"kept","operator":"Exists"}]}'
        if self._rng.random() < 0.2:
            wishes[names.ANNOTATION_RESERVATION_EXACT] = '{"resourceNames":["cpu"]}'
        return wishes


def _moment(at_s: float) -> str:
    return datetime.fromtimestamp(EPOCH_S + at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def forged(rng: random.Random) -> dict[str, str]:
    """What somebody claims who may create pods: every card of its node, a plan, a group that pays, a Reservation."""
    cards = [{"minor": minor, "resources": dict.fromkeys(WHOLE_CARD, "100")} for minor in range(CARDS_CLAIMED)]
    claims = {
        names.ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": cards}),
        names.ANNOTATION_PLAN: "f" * 24,
        names.ANNOTATION_QUOTA: f"/{rng.choice(GROUPS)}",
        names.ANNOTATION_RESERVATION_ALLOCATED: json.dumps({"name": "kept-0", "uid": "forged"}),
    }
    return {name: claims[name] for name in sorted(rng.sample(sorted(claims), rng.randint(1, len(claims))))}


def _stranger(rng: random.Random, size: Size, number: int, gpus: int = 0, most_s: float = 40.0) -> list[Timed]:
    """A pod that another scheduler puts on a node; it ends before the run does. Nobody notes which cards it has."""
    at_s = rng.uniform(0.0, size.end_s)
    request, lasts_s = PodRequest(rng.choice((250, 1_000)), 512, gpus), rng.uniform(5, most_s)
    pod = pod_manifest(
        f"foreign-{number}",
        request,
        namespace=NAMESPACE,
        annotations={DURATION: f"{min(lasts_s, size.end_s + STRANGERS_LEAVE_S - at_s):.1f}s"},
        scheduler="other",
    )
    if rng.random() < 0.2:
        pod["metadata"]["annotations"] |= forged(rng)
        if gpus:
            # Up to what it asks for, its note counts: a card that is taken would be given twice, and not by Berth.
            pod["metadata"]["annotations"].pop(names.ANNOTATION_DEVICE_ALLOCATED, None)
    pod["spec"]["nodeName"] = f"node-{rng.randrange(size.nodes)}"
    return [Timed(at_s, Place(pod))]


def _relabelled(rng: random.Random, size: Size) -> list[Timed]:
    """Pods, bound or not, that name another quota group from some moment on."""
    return [
        Timed(
            rng.uniform(0.0, size.end_s),
            Change("Pod", f"pod-{number}", {"metadata": {"labels": {QUOTA_LABEL: rng.choice(GROUPS)}}}),
        )
        for number in rng.sample(range(size.singles), rng.choice((0, size.singles // 8)))
    ]


def _strategies(rng: random.Random, size: Size) -> list[Timed]:
    """Strategies, set by somebody and thought over now and then; every second one is switched off."""
    times = sorted(rng.uniform(0.0, size.end_s) for _ in range(rng.choice((0, 1, 2, 3))))
    return [
        Timed(at_s, Put(strategy_manifest(enable=number % 2 == 0, percent=rng.randrange(40, 90))))
        for number, at_s in enumerate(times)
    ]
