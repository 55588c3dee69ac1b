"""What somebody who may write pods can claim: cards, a plan, a quota, a Reservation, batch resources, profiles."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Any

from tests.deploy.control_plane import get, post

from berth.contracts import names
from berth.simcluster.generate import PodRequest, pod_manifest

CARDS = 16
WHOLE = {names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100", names.GPU_MEMORY: "80Gi"}
FORGED = {
    names.ANNOTATION_DEVICE_ALLOCATED: json.dumps(
        {kind: [{"minor": minor, "resources": WHOLE} for minor in range(CARDS)] for kind in ("gpu", "rdma", "npu")}
    ),
    names.ANNOTATION_PLAN: "f" * 24,
    names.ANNOTATION_QUOTA: "/koordinator-default-quota",
    names.ANNOTATION_RESERVATION_ALLOCATED: json.dumps({"name": "r", "uid": "r"}),
    names.ANNOTATION_ATTEMPT: "-1",
    names.ANNOTATION_EXTENDED_RESOURCE_SPEC: json.dumps(
        {"containers": {"main": {"limits": {names.BATCH_CPU: "64000", names.BATCH_MEMORY: "1Ti"}}}}
    ),
    names.ANNOTATION_PROFILES: json.dumps(
        {"profiles": ["p"], "draw": 1, "labels": {"app": ["rich", "x"]}, "annotations": {}, "seal": "0" * 24}
    ),
}


async def forge_notes(pods: str) -> None:
    """Pods that say they hold every card of a node, bound past the scheduler and waiting; and one that is placed."""
    nodes = await asyncio.to_thread(get, pods.replace("/namespaces/default/pods", "/nodes"))
    for number, node in enumerate(nodes["items"]):
        await asyncio.to_thread(post, pods, _liar(f"liar-{number}", node["metadata"]["name"]))
    for number in range(3):
        await asyncio.to_thread(post, pods, _liar(f"waiting-liar-{number}", ""))
    await asyncio.to_thread(_patch, f"{pods}/before", {"metadata": {"annotations": FORGED}})


def _liar(name: str, node: str) -> dict[str, Any]:
    made = pod_manifest(name, PodRequest(10, 16, 0))
    made["metadata"].setdefault("annotations", {}).update(FORGED)
    if node:
        made["spec"]["nodeName"] = node
    return made


def _patch(url: str, change: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/merge-patch+json"}
    request = urllib.request.Request(url, json.dumps(change).encode(), headers, method="PATCH")
    urllib.request.urlopen(request, timeout=5).close()
