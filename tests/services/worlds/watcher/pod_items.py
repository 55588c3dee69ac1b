"""Pods as an API server sends them, and what STATE says of them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from berth.contracts import state
from berth.rules.pod_reading import PodItem
from berth.rules.reading.pods import pod_of

DECODER = msgspec.json.Decoder(PodItem)
REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
"""Fields of affinity to other pods."""


def pod(spec: Any = None, status: Any = None, **metadata: Any) -> dict[str, Any]:
    """An object of the API, with one container where the specification says nothing else."""
    spec = {"containers": [{"name": "c"}]} if spec is None else spec
    meta = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"} | metadata
    return {"metadata": meta, "spec": spec} | ({} if status is None else {"status": status})


def read(item: Any) -> state.Pod:
    """What STATE says of it."""
    return pod_of(DECODER.decode(json.dumps(item).encode()), 7)


def container(name: str = "c", requests: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests or {}}} | more


def fields(message: Any) -> list[str]:
    """The fields that it names as a problem."""
    return [problem.field for problem in message.problems]
