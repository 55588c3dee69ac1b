"""Profiles, and pods that they select, in one run: what there is, and what each profile has to make of a pod."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any, Final

from tests.simulation import lending
from tests.simulation.workload import NAMESPACE, Create, Delete, Json, Size, Timed, priority_class

from berth.contracts import names
from berth.resources.quantity import parse_units
from berth.rules.webhooks import KINDS
from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.simcluster.kubelet import DURATION

BATCH, MID, HALF = "etl", "web", "half"
APP: Final = "app"
SUFFIXED: Final = "cost-center"
FORGED: Final = '{"profiles":["x"],"draw":1,"labels":{"app":["web","etl"]},"seal":"000000000000000000000000"}'
CLASSES: Final = {"koord-batch": 5_000, "koord-mid": 7_000}
PROFILES: Final[dict[str, Json]] = {
    "a-batch": {
        "selector": {"matchLabels": {APP: BATCH}},
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
        "labels": {"profiled": "yes", APP + "-was": BATCH},
        "labelSuffixes": {SUFFIXED: "-batch"},
    },
    "b-again": {"selector": {"matchLabels": {APP: BATCH}}, "labelSuffixes": {SUFFIXED: "-b"}},
    "c-of-profiled": {"selector": {"matchLabels": {"profiled": "yes"}}, "labels": {"never": "seen"}},
    "d-half": {"selector": {"matchLabels": {APP: BATCH}}, "probability": "50%", "labels": {HALF: "yes"}},
    "e-mid": {"selector": {"matchLabels": {APP: MID}}, "qosClass": "LS", "priorityClassName": "koord-mid"},
}
"""By name. Two have entries for the same pods; what one sets must not make another one match."""
CERTAIN: Final = {BATCH: ("a-batch", "b-again"), MID: ("e-mid",)}
"""By the label of an author's pod: the profiles that it has to have."""


def cluster(rng: random.Random, size: Size) -> list[Json]:
    """Nodes that lend, profiles, and the configurations without an entry, as they are shipped."""
    made = lending.cluster(rng, size)
    made += [priority_class(name, value) for name, value in CLASSES.items()]
    kind = {"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile"}
    made += [{**kind, "metadata": {"name": name}, "spec": spec} for name, spec in PROFILES.items()]
    shipped = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": names.WEBHOOKS}}
    made += [{**shipped, "kind": f"{each.capitalize()}WebhookConfiguration"} for each in KINDS]
    return made


def crowd(rng: random.Random, size: Size) -> list[Timed]:
    """Nodes report as where they lend; pods of all kinds come and go."""
    done = lending.reports(rng, size)
    for number in range(size.singles):
        at_s = rng.uniform(4.0, size.end_s)
        done.append(Timed(at_s, Create(_pod(rng, number))))
        if rng.random() < 0.3:
            done.append(Timed(at_s + rng.uniform(8.0, 60.0), Delete("Pod", f"pod-{number}", rng.choice((0, 30)))))
    return sorted(done, key=lambda timed: timed.at_s)


def _pod(rng: random.Random, number: int) -> Json:
    notes = {DURATION: f"{rng.uniform(3, 20):.1f}s"} if rng.random() < 0.6 else {}
    if rng.random() < 0.2:
        notes[names.ANNOTATION_PROFILES] = FORGED
    if rng.random() < 0.2:
        notes[names.ANNOTATION_EXTENDED_RESOURCE_SPEC] = '{"containers":{"x":{}}}'
    labels = {APP: rng.choice((BATCH, BATCH, BATCH, MID, "other")), SUFFIXED: f"team-{number}"}
    request = PodRequest(rng.choice((250, 500, 1_000)), 64)
    made = pod_manifest(f"pod-{number}", request, namespace=NAMESPACE, labels=labels, annotations=notes)
    odd = rng.choice(("1", "250m", "333333u"))
    made["spec"]["containers"].append(
        {
            "name": "sidecar",
            "image": "i",
            "resources": {"requests": {"cpu": odd}, "limits": {"cpu": odd, "memory": "1Mi"}},
        }
    )
    return made


def difference(author: Json, stored: Json, *, was_asked: bool) -> str:
    """What is wrong with a pod as it was stored, by what its author wrote; empty: nothing.

    `was_asked`: whether the webhook has answered at all: then all that a profile says holds, and else nothing of it.
    """
    kind = author["metadata"]["labels"][APP]
    profiled = was_asked and kind in CERTAIN
    labels = dict(author["metadata"]["labels"])
    if profiled and kind == BATCH:
        labels |= {"profiled": "yes", APP + "-was": BATCH, names.LABEL_QOS: "BE"}
        labels[SUFFIXED] += "-batch-b"
    elif profiled:
        labels |= {names.LABEL_QOS: "LS"}
    found = dict(stored["metadata"].get("labels") or {})
    drawn = found.pop(HALF, None)
    if drawn is not None and not (profiled and kind == BATCH):
        return f"has the label {HALF}"
    if found != labels:
        return f"labels are {found}, and should be {labels}"
    lent = {"cpu": names.BATCH_CPU, "memory": names.BATCH_MEMORY}
    if kind == MID:
        lent = {"cpu": names.MID_CPU, "memory": names.MID_MEMORY}
    for mine, theirs in zip(author["spec"]["containers"], stored["spec"]["containers"], strict=True):
        wanted = _amounts(mine, lent if profiled else {})
        seen = _amounts(theirs, {})
        if wanted != seen:
            return f"container {mine['name']} has {seen}, and should have {wanted}"
    notes = stored["metadata"].get("annotations") or {}
    if was_asked and notes.get(names.ANNOTATION_PROFILES) == FORGED:
        return "keeps a mark that nobody sealed"
    return ""


def _amounts(container: Json, lent: dict[str, str]) -> dict[str, dict[str, Fraction]]:
    """Exact amounts by field and name; lent cpu in whole thousandths, rounded up, requests filled from limits."""
    found: dict[str, dict[str, Fraction]] = {}
    for field, amounts in container["resources"].items():
        found[field] = {}
        for name, text in amounts.items():
            exact = _exact(name, text)
            if name == "cpu" and name in lent:
                exact = Fraction(-(-exact * 1000 // 1))
            found[field][lent.get(name, name)] = exact
    for name, amount in found.get("limits", {}).items():  # as the API server does of native ones
        found.setdefault("requests", {}).setdefault(name, amount)
    return found


def _exact(name: str, text: Any) -> Fraction:
    if name == "cpu":
        units = {"m": Fraction(1, 1000), "u": Fraction(1, 10**6)}
        unit = units.get(str(text)[-1])
        return Fraction(str(text)[:-1]) * unit if unit is not None else Fraction(str(text))
    return Fraction(parse_units(text))
