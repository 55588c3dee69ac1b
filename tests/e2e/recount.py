"""Who holds what, counted anew from the API server's objects alone. Shares no code with the product."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

Json = dict[str, Any]
Gang = tuple[str, str]
"""Namespace and name."""

_SUFFIX = {
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
}
_PLAIN = ("cpu", "memory")
_ENDED = ("Succeeded", "Failed")
_GROUP = "pod-group.scheduling.sigs.k8s.io"
_GANG = "gang.scheduling.koordinator.sh/name"
_MINIMUM = "gang.scheduling.koordinator.sh/min-available"


def amount(text: str) -> Fraction:
    """A Kubernetes quantity."""
    for suffix in sorted(_SUFFIX, key=len, reverse=True):
        if text.endswith(suffix):
            return Fraction(text.removesuffix(suffix)) * _SUFFIX[suffix]
    return Fraction(text)


def over_capacity(nodes: Iterable[Json], devices: Iterable[Json], pods: Iterable[Json]) -> list[str]:
    """Every cpu, byte, pod slot, host port and device minor that is given out beyond what there is."""
    capacity = {node["metadata"]["name"]: node["status"]["allocatable"] for node in nodes}
    cards = {
        (device["metadata"]["name"], each["minor"]): each["resources"]
        for device in devices
        for each in device["spec"]["devices"]
        if each["type"] == "gpu"
    }
    used: dict[str, Counter[str]] = defaultdict(Counter)
    taken: dict[tuple[str, int], dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    ports: Counter[tuple[str, Any, str]] = Counter()
    found: list[str] = []
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if not node or pod.get("status", {}).get("phase") in _ENDED:
            continue
        used[node]["pods"] += 1
        wants_gpu = False
        for container in pod["spec"]["containers"]:
            requests = container.get("resources", {}).get("requests", {})
            wants_gpu = wants_gpu or any("gpu" in name for name in requests)
            for name in _PLAIN:
                used[node][name] += amount(requests.get(name, "0"))  # type: ignore[assignment]
            for port in container.get("ports", ()):
                if port.get("hostPort"):
                    ports[node, port["hostPort"], port.get("protocol", "TCP")] += 1
        text = pod["metadata"].get("annotations", {}).get("scheduling.koordinator.sh/device-allocated")
        grants = json.loads(text).get("gpu", []) if text else []
        if wants_gpu and not grants:
            found.append(f"{pod['metadata']['name']} asks for GPUs and was bound without any")
        for grant in grants:
            for name, given in grant["resources"].items():
                taken[node, grant["minor"]][name] += amount(given)
    for node, amounts in used.items():
        for name, total in amounts.items():
            allowed = amount(capacity.get(node, {}).get(name, "0"))
            if total > allowed:
                found.append(f"{node}: {name} {float(total):g} of {float(allowed):g}")
    for (node, minor), amounts in taken.items():
        for name, total in amounts.items():
            allowed = amount(cards.get((node, minor), {}).get(name, "0"))
            if total > allowed:
                found.append(f"{node} GPU {minor}: {name} {float(total):g} of {float(allowed):g}")
    found += [f"{node}: port {port}/{protocol} {n} times" for (node, port, protocol), n in ports.items() if n > 1]
    return found


def gang_of(pod: Json) -> Gang | None:
    """The gang that a pod is a member of."""
    meta = pod["metadata"]
    name = meta.get("labels", {}).get(_GROUP) or meta.get("annotations", {}).get(_GANG)
    return (meta["namespace"], name) if name else None


def broken_gangs(pods: Iterable[Json], groups: Iterable[Json]) -> dict[Gang, str]:
    """Gangs of which some members are bound, but fewer than must start together, in words."""
    minimum = {
        (group["metadata"]["namespace"], group["metadata"]["name"]): int(group["spec"]["minMember"]) for group in groups
    }
    bound: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        gang, notes = gang_of(pod), pod["metadata"].get("annotations", {})
        if gang is None:
            continue
        if _MINIMUM in notes:
            minimum.setdefault(gang, int(notes[_MINIMUM]))
        bound[gang] += bool(pod["spec"].get("nodeName"))
    return {
        gang: f"gang {gang}: {count} of {minimum[gang]} bound"
        for gang, count in bound.items()
        if 0 < count < minimum.get(gang, 0)
    }


def gpu_percent(pods: Iterable[Json]) -> int:
    """Percent of GPU compute that is given out, all cards together."""
    total = 0
    for pod in pods:
        text = pod["metadata"].get("annotations", {}).get("scheduling.koordinator.sh/device-allocated")
        if text and pod["spec"].get("nodeName"):
            total += sum(int(each["resources"]["koordinator.sh/gpu-core"]) for each in json.loads(text).get("gpu", []))
    return total
