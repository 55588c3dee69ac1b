"""Objects of the API server as cluster-watcher makes messages of them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from berth.cluster_watcher.kinds import CONFIG_MAPS, KINDS

KIND = {kind.prefix: kind for kind in (*KINDS, CONFIG_MAPS)}
META = {
    "name": "a.b",
    "namespace": "ns",
    "uid": "u",
    "resourceVersion": "7",
    "creationTimestamp": "2024-01-01T00:00:00Z",
}


def read(prefix: str, item: dict[str, Any], **metadata: Any) -> Any:
    whole = {"metadata": META | metadata} | item
    kind = KIND[prefix]
    return kind.convert(msgspec.json.decode(json.dumps(whole).encode(), type=kind.item), 7)


def fields(message: Any) -> list[str]:
    return [problem.field for problem in message.problems]
