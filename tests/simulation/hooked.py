"""Quota groups with a max of what a hook charges, pods that the hook charges or refuses, and the hook.

Two groups, which may use more together than the one above them; maxima that sink for a while.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Final

from tests.simulation.workload import CARDS, NAMESPACE, QUOTA_LABEL, Change, Create, Delete, Json, Size, Timed

from berth.contracts import names
from berth.rules.quota_hooks.seam import ENTRY_POINTS
from berth.rules.quota_hooks.seen import HookedGroup, HookedPod
from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.kubelet import DURATION

SEAT: Final = "seats.example.com/seat"
SEATS_LABEL: Final = "seats"
ABOVE: Final = "seats"
GROUPS: Final = ("seats-a", "seats-b")
MOST: Final = 4
UNWANTED: Final = "9"
"""Who asks for so many seats is refused by the hook."""
ENVIRON: Final = {"quota-manager": {"BERTH_QUOTA_HOOKS": "seats", "BERTH_QUOTA_HOOK_TIMEOUT_S": "60"}}


class Seats:
    """As many seats as a pod says."""

    resources = (SEAT,)

    def charges(self, pod: HookedPod) -> dict[str, int]:
        """By its label."""
        return seats_of(pod.labels)

    def refuses(self, pod: HookedPod, group: HookedGroup) -> str:
        """Some are too many."""
        return "too many seats" if pod.labels.get(SEATS_LABEL) == UNWANTED else ""

    def shows(self, group: HookedGroup) -> dict[str, int]:
        """How many are taken."""
        return {"taken": group.used.get(SEAT, 0)} if SEAT in group.max else {}


def seats_of(labels: Mapping[str, str]) -> dict[str, int]:
    """What the hook charges for a pod with these labels."""
    seats = int(labels.get(SEATS_LABEL, "0"))
    return {SEAT: seats} if seats else {}


def installed(group: str) -> list[EntryPoint]:
    """What is installed, in place of what is."""
    return [EntryPoint("seats", f"{__name__}:Seats", group)] if group == ENTRY_POINTS else []


def seated(rng: random.Random, size: Size) -> list[Timed]:
    """More pods than there are seats; they end, or are deleted."""
    done = [Timed(0.0, Create(_group(ABOVE, "", MOST + 2)))]
    for group in GROUPS:
        done.append(Timed(0.0, Create(_group(group, ABOVE, MOST))))
        at_s = rng.uniform(10.0, size.end_s * 0.6)
        done.append(Timed(at_s, _has(group, rng.choice((1, 2)))))
        done.append(Timed(at_s + rng.uniform(3.0, 15.0), _has(group, MOST)))
    for number in range(size.singles):
        at_s = rng.uniform(3.0, size.end_s)
        notes = {DURATION: f"{rng.uniform(3, 12):.1f}s"} if rng.random() < 0.7 else {}
        labels = {
            QUOTA_LABEL: rng.choice((*GROUPS, *GROUPS, ABOVE)),
            SEATS_LABEL: rng.choice(("1", "1", "2", "3", "0", UNWANTED)),
        }
        request = PodRequest(100, 64, 0)
        name = f"seated-{number}"
        manifest = pod_manifest(name, request, namespace=NAMESPACE, labels=labels, annotations=notes)
        done.append(Timed(at_s, Create(manifest)))
        if not notes:
            done.append(Timed(at_s + rng.uniform(2.0, 20.0), Delete("Pod", name, rng.choice((0, 30)))))
    return sorted(done, key=lambda timed: timed.at_s)


def _has(group: str, seats: int) -> Change:
    return Change("ElasticQuota", group, {"spec": {"max": {SEAT: str(seats)}}})


def _group(name: str, parent: str, seats: int) -> Json:
    labels = {names.LABEL_QUOTA_IS_PARENT: str(not parent).lower()}
    if parent:
        labels[names.LABEL_QUOTA_PARENT] = parent
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"min": {}, "max": {"cpu": "1k", "memory": "1Ti", CARDS: "100k", SEAT: str(seats)}},
    }
