"""The parts of random pods that look at other pods: topology spread, affinity and anti-affinity."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.parity.world import NAMESPACES

KEYS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone", "kubernetes.io/hostname", "disk", "rack")


def selector(rng: Random) -> dict[str, Any]:
    """A selector over the labels that pods have; now and then an empty one."""
    drawn = rng.random()
    if drawn < 0.05:
        return {}
    if drawn < 0.7:
        return {"matchLabels": {"app": rng.choice(("web", "db", "cache"))}}
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    if operator in ("Exists", "DoesNotExist"):
        return {"matchExpressions": [{"key": "tier", "operator": operator}]}
    key, values = rng.choice((("app", ("web", "db", "cache")), ("tier", ("a", "b"))))
    return {"matchExpressions": [{"key": key, "operator": operator, "values": sorted(rng.sample(values, 1))}]}


def spread(rng: Random, *, hard: bool, soft: bool) -> list[dict[str, Any]]:
    """One or two constraints."""
    ways = [way for way, on in (("DoNotSchedule", hard), ("ScheduleAnyway", soft)) if on]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for _ in range(rng.randint(1, 2)):
        way, key = rng.choice(ways), rng.choice(KEYS[:-1] if rng.random() < 0.9 else KEYS)
        made: dict[str, Any] = {"maxSkew": rng.choice((1, 1, 2)), "topologyKey": key, "whenUnsatisfiable": way}
        if rng.random() < 0.95:
            made["labelSelector"] = selector(rng)
            if rng.random() < 0.25:
                made["matchLabelKeys"] = ["rev"]
        if way == "DoNotSchedule" and rng.random() < 0.25:
            made["minDomains"] = rng.randint(1, 4)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if rng.random() < 0.3:
                made[field] = rng.choice(("Honor", "Ignore"))
        found[key, way] = made
    return list(found.values())


def require(rng: Random, spec: dict[str, Any]) -> None:
    """Required affinity, anti-affinity, or both."""
    affinity = spec.setdefault("affinity", {})
    if rng.random() < 0.5:
        affinity.setdefault("podAffinity", {})["requiredDuringSchedulingIgnoredDuringExecution"] = [
            _term(rng) for _ in range(rng.choice((1, 1, 2)))
        ]
    if rng.random() < 0.6 or not affinity:
        affinity.setdefault("podAntiAffinity", {})["requiredDuringSchedulingIgnoredDuringExecution"] = [
            _term(rng) for _ in range(rng.choice((1, 1, 2)))
        ]


def prefer(rng: Random, spec: dict[str, Any]) -> None:
    """Preferred affinity, anti-affinity, or both."""
    affinity = spec.setdefault("affinity", {})
    for field in rng.choice((("podAffinity",), ("podAntiAffinity",), ("podAffinity", "podAntiAffinity"))):
        affinity.setdefault(field, {})["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": rng.choice((1, 5, 100)), "podAffinityTerm": _term(rng)} for _ in range(rng.randint(1, 2))
        ]


def _term(rng: Random) -> dict[str, Any]:
    made: dict[str, Any] = {"topologyKey": rng.choice(KEYS)}
    if rng.random() < 0.95:
        made["labelSelector"] = selector(rng)
        drawn = rng.random()
        if drawn < 0.15:
            made["matchLabelKeys"] = ["rev"]
        elif drawn < 0.3:
            made["mismatchLabelKeys"] = ["rev"]
    drawn = rng.random()
    if drawn < 0.2:
        made["namespaces"] = sorted(rng.sample(NAMESPACES, rng.randint(1, 2)))
    if 0.1 < drawn < 0.35:
        made["namespaceSelector"] = rng.choice(({}, {"matchLabels": {"team": "red"}}))
    return made
