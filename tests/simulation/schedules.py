"""ReservationSchedules whose windows come every minute or two, and the pods that are meant to use them."""

from __future__ import annotations

import random
from typing import Final

from tests.simulation.workload import NAMESPACE, OWNER_LABEL, Change, Create, Delete, Json, Size, Timed

from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.kubelet import DURATION

CRONS: Final = ("* * * * *", "* * * * *", "*/2 * * * *", "61 * * * *")
PRIORITY: Final = 500
"""Of a window's Reservation that displaces pods of lower priority."""
SHARE: Final = 0.4
"""Of runs that have a schedule."""


def some(rng: random.Random, size: Size) -> list[Timed]:
    """Now and then one; drawn beside everything else, so that no other draw depends on it."""
    apart = random.Random(rng.getstate()[1][0])
    return one(apart, size, 0) if apart.random() < SHARE else []


def one(rng: random.Random, size: Size, number: int) -> list[Timed]:
    """A schedule, pods for its windows, and maybe its end; now and then somebody deletes what it has made."""
    at_s, name = rng.uniform(0.0, size.end_s * 0.3), f"window-{number}"
    request = PodRequest(1_000, 2_048, 1)
    displaces = rng.choice(("Nobody", "Borrowers", "LowerPriority"))
    pod = {**request.spec(), **({"priority": PRIORITY} if displaces == "LowerPriority" else {})}
    made: Json = {
        "apiVersion": "scheduling.berth.sh/v1alpha1",
        "kind": "ReservationSchedule",
        "metadata": {"name": name},
        "spec": {
            "cron": rng.choice(CRONS),
            "timeZone": rng.choice(("UTC", "Europe/Berlin")),
            "duration": f"{rng.choice((15, 40, 60))}s",
            "lead": f"{rng.choice((0, 10, 30))}s",
            "displaces": displaces,
            "template": {
                "spec": {
                    "template": {"metadata": {"namespace": NAMESPACE}, "spec": pod},
                    "owners": [{"labelSelector": {"matchLabels": {OWNER_LABEL: name}}}],
                    "allocateOnce": False,
                }
            },
        },
    }
    done = [Timed(at_s, Create(made))]
    for user in range(rng.choice((1, 3))):
        notes = {DURATION: f"{rng.uniform(3, 20):.1f}s"}
        pod = pod_manifest(
            f"{name}-user-{user}", request, namespace=NAMESPACE, labels={OWNER_LABEL: name}, annotations=notes
        )
        done.append(Timed(rng.uniform(at_s, size.end_s), Create(pod)))
    if rng.random() < 0.3:
        spec = {"spec": {"duration": "20s"}}
        done.append(Timed(rng.uniform(at_s + 1.0, size.end_s), Change("ReservationSchedule", name, spec)))
    # Without an end it would go on making Reservations when it is asked whether all is settled.
    done.append(Timed(rng.uniform(size.end_s * 0.8, size.end_s), Delete("ReservationSchedule", name, 0)))
    return done
