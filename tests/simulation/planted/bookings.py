"""Users who book capacity for a short time, and mostly do not come."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Final

from tests.simulation import schedules
from tests.simulation.planted.users import CARD, crowd
from tests.simulation.workload import NAMESPACE, OWNER_LABEL, Change, Create, Delete, Json, Size, Timed

from berth.contracts import names
from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.kubelet import DURATION

TTLS_S: Final = (5, 15, 30)
SHARE: Final = PodRequest(500, 512, 1, 500)
"""Half a card."""
PRIORITY: Final = 100
SMALL: Final = PodRequest(100, 64, 0)
SOME: Final = PodRequest(1_000, 1_024, 0)


def restricted(rng: random.Random, size: Size) -> list[Timed]:
    """Restricted ones, of which users may not have all: those who want a whole card's share go elsewhere."""
    done = bookings(rng, size)
    for timed in done:
        made = timed.action.manifest if isinstance(timed.action, Create) else {}
        if made.get("kind") == "Reservation":
            made["spec"]["allocatePolicy"] = "Restricted"
            made["metadata"]["annotations"] = {names.ANNOTATION_NODE_RESERVATION: '{"resources":{"cpu":"500m"}}'}
    return done


def windows(rng: random.Random, size: Size) -> list[Timed]:
    """Schedules of short windows, among pods that want the same cards."""
    done = crowd(rng, size)
    for number in range(size.reservations):
        done += schedules.one(rng, size, number)
    return done


def borrowed(rng: random.Random, size: Size) -> list[Timed]:
    """Pods that may fill what is idle, half of them protected from being made to leave."""
    done = bookings(rng, size)
    for number in range(size.reservations * 2):
        labels = {names.LABEL_RESERVATION_IGNORED: "true"}
        if number % 2:
            labels[names.LABEL_DISABLE_PREEMPTIBLE] = "true"
        pod = pod_manifest(f"borrower-{number}", CARD, namespace=NAMESPACE, labels=labels, annotations={DURATION: "8s"})
        done.append(Timed(rng.uniform(4.0, size.end_s - 8.0), Create(pod)))
    return sorted(done, key=lambda timed: timed.at_s)


def taken_over(rng: random.Random, size: Size) -> list[Timed]:
    """Restricted ones that take over pods which run, two of them the same ones; those end meanwhile, are deleted, or
    are followed by others that use what they leave."""
    done = crowd(rng, size)
    for number in range(size.reservations):
        at_s, group = rng.uniform(3.0, size.end_s - 10.0), f"group-{number % 5}"
        for user in range(rng.choice((1, 2))):
            notes = {DURATION: f"{rng.uniform(3, 15):.1f}s"} if rng.random() < 0.6 else {}
            name, card = f"taken-{number}-{user}", rng.choice((CARD, CARD, SHARE))
            pod = pod_manifest(name, card, namespace=NAMESPACE, labels={OWNER_LABEL: group}, annotations=notes)
            done.append(Timed(max(1.0, at_s + rng.uniform(-6.0, 4.0)), Create(pod)))
            if not notes:
                done.append(Timed(at_s + rng.uniform(0.0, 15.0), Delete("Pod", name, rng.choice((0, 30)))))
        done.append(Timed(at_s, Create(_taking(rng, f"taker-{number}", group))))
    return sorted(done, key=lambda timed: timed.at_s)


def handed_over(rng: random.Random, size: Size) -> list[Timed]:
    """Placeholders of a card, half of them with a user that comes later, among pods that want the same cards."""
    done = crowd(rng, size)
    for number in range(size.reservations):
        at_s, group = rng.uniform(1.0, size.end_s - 20.0), f"group-{number}"
        owners = json.dumps([{"labelSelector": {"matchLabels": {OWNER_LABEL: group}}}])
        notes = {names.ANNOTATION_RESERVATION_OWNERS: owners}
        labels = {names.LABEL_OPERATING_MODE: "Reservation"}
        name, place = f"placeholder-{number}", rng.choice((CARD, CARD, SHARE))
        holder = pod_manifest(name, place, namespace=NAMESPACE, labels=labels, annotations=notes)
        done.append(Timed(at_s, Create(holder)))
        if rng.random() < 0.6:
            wants = {DURATION: f"{rng.uniform(3, 12):.1f}s"}
            if rng.random() < 0.3:
                wants[names.ANNOTATION_RESERVATION_AFFINITY] = json.dumps({"name": name})
            whose = {OWNER_LABEL: group}
            user = pod_manifest(f"{name}-user", CARD, namespace=NAMESPACE, labels=whose, annotations=wants)
            done.append(Timed(at_s + rng.uniform(0.5, 15.0), Create(user)))
        done.append(Timed(at_s + rng.uniform(6.0, 40.0), Delete("Pod", name, rng.choice((0, 30)))))
    return sorted(done, key=lambda timed: timed.at_s)


def _taking(rng: random.Random, name: str, group: str) -> Json:
    """A Reservation of a card or two that takes over pods of a group."""
    request = rng.choice((CARD, CARD, PodRequest(CARD.cpu_milli * 2, CARD.memory_mib * 2, 2)))
    labels = {names.LABEL_PRE_ALLOCATION_REQUIRED: "true"} if rng.random() < 0.5 else {}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "template": {"metadata": {"namespace": NAMESPACE}, "spec": request.spec()},
            "owners": [{"labelSelector": {"matchLabels": {OWNER_LABEL: group}}}],
            "ttl": f"{rng.choice(TTLS_S)}s",
            "allocateOnce": rng.random() < 0.2,
            "allocatePolicy": "Restricted",
            "preAllocation": True,
            "preAllocationPolicy": {"mode": "Default", "enableMultiple": rng.random() < 0.5},
        },
    }


def lent_for_long(rng: random.Random, size: Size) -> list[Timed]:
    """Reservations that last, who comes for some of them, and borrowers of whom some stay."""
    done = borrowed(rng, size)
    for timed in done:
        made = timed.action.manifest if isinstance(timed.action, Create) else {}
        if made.get("kind") == "Reservation":
            made["spec"]["ttl"] = "1h"
        elif made and made["metadata"]["name"].startswith("borrower-") and rng.random() < 0.5:
            del made["metadata"]["annotations"][DURATION]
    return done


def busy(rng: random.Random, size: Size) -> list[Timed]:
    """One Reservation, and users who come and go all the time."""
    made: Json = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "busy"},
        "spec": {
            "template": {"metadata": {"namespace": NAMESPACE}, "spec": SMALL.spec()},
            "owners": [{"labelSelector": {"matchLabels": {OWNER_LABEL: "busy"}}}],
            "ttl": "1h",
            "allocateOnce": False,
        },
    }
    done = [Timed(1.0, Create(made))]
    for number in range(size.singles):
        notes = {DURATION: f"{rng.uniform(1, 3):.1f}s"}
        user = pod_manifest(
            f"user-{number}", SMALL, namespace=NAMESPACE, labels={OWNER_LABEL: "busy"}, annotations=notes
        )
        done.append(Timed(rng.uniform(3.0, size.end_s), Create(user)))
    return sorted(done, key=lambda timed: timed.at_s)


def grown(rng: random.Random, size: Size) -> list[Timed]:
    """Reservations that are to hold more or less from time to time, for users and among pods that want the same."""
    done = crowd(rng, size)
    for number in range(size.reservations):
        at_s, name = rng.uniform(1.0, 8.0), f"grown-{number}"
        made: Json = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name},
            "spec": {
                "template": {"metadata": {"namespace": NAMESPACE}, "spec": SOME.spec()},
                "owners": [{"labelSelector": {"matchLabels": {OWNER_LABEL: name}}}],
                "ttl": "1h",
                "allocateOnce": False,
                "allocatePolicy": rng.choice(("Aligned", "Restricted")),
            },
        }
        done.append(Timed(at_s, Create(made)))
        for _ in range(6):
            resources = {"cpu": f"{rng.choice((500, 2000, 4000, 8000, 16000))}m"}
            if rng.random() < 0.5:
                resources["memory"] = f"{rng.choice((1, 4, 16))}Gi"
            notes = {names.ANNOTATION_RESERVATION_RESIZE: json.dumps({"resources": resources})}
            change = Change("Reservation", name, {"metadata": {"annotations": notes}})
            done.append(Timed(rng.uniform(at_s + 1.0, size.end_s), change))
        for user in range(3):
            notes = {DURATION: f"{rng.uniform(3, 15):.1f}s"}
            labels = {OWNER_LABEL: name}
            pod = pod_manifest(f"{name}-user-{user}", SOME, namespace=NAMESPACE, labels=labels, annotations=notes)
            done.append(Timed(rng.uniform(at_s, size.end_s - 10.0), Create(pod)))
    return sorted(done, key=lambda timed: timed.at_s)


def displacing(rng: random.Random, size: Size) -> list[Timed]:
    """Most of them say by their priority that others have to leave, some of the others may only be lent."""
    done = borrowed(rng, size)
    for timed in done:
        made = timed.action.manifest if isinstance(timed.action, Create) else {}
        if made.get("kind") == "Reservation" and rng.random() < 0.7:
            pod = made["spec"]["template"]["spec"]
            made["spec"]["template"]["spec"] = {**pod, "priority": PRIORITY}
    for number in range(2):
        done += schedules.one(rng, size, number)
    return sorted([*done, *_late_owners(rng, done)], key=lambda timed: timed.at_s)


def _late_owners(rng: random.Random, done: list[Timed]) -> Iterator[Timed]:
    """Owners of higher priority than the users whom they find in their Reservation."""
    for timed in done:
        made = timed.action.manifest if isinstance(timed.action, Create) else {}
        if made.get("kind") == "Pod" and made["metadata"]["name"].endswith("-user-0") and rng.random() < 0.7:
            meta = {**made["metadata"], "name": f"{made['metadata']['name']}-late"}
            late = {**made, "metadata": meta, "spec": {**made["spec"], "priority": PRIORITY}}
            yield Timed(timed.at_s + rng.uniform(1.0, 4.0), Create(late))


def bookings(rng: random.Random, size: Size) -> list[Timed]:
    """Reservations of a card, some of them with users, among pods that want the same cards."""
    done = crowd(rng, size)
    for number in range(size.reservations):
        at_s, name, labels = rng.uniform(3.0, size.end_s - 10.0), f"kept-{number}", {OWNER_LABEL: f"kept-{number}"}
        made: Json = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name},
            "spec": {
                "template": {"metadata": {"namespace": NAMESPACE}, "spec": CARD.spec()},
                "owners": [{"labelSelector": {"matchLabels": labels}}],
                "ttl": f"{rng.choice(TTLS_S)}s",
                "allocateOnce": False,
            },
        }
        done.append(Timed(at_s, Create(made)))
        if rng.random() < 0.5:
            notes = {DURATION: f"{rng.uniform(3, 12):.1f}s"}
            user = pod_manifest(f"{name}-user-0", CARD, namespace=NAMESPACE, labels=labels, annotations=notes)
            done.append(Timed(at_s + rng.uniform(0.5, 5.0), Create(user)))
    return sorted(done, key=lambda timed: timed.at_s)
