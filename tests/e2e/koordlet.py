"""Reports of what nodes use, as koordlets write them."""

from __future__ import annotations

from tests.e2e.whole import Whole

METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"


class Koordlet:
    """Reports of one node, by hand."""

    def __init__(self, whole: Whole, node: str) -> None:
        self._whole = whole
        self._node = node
        self._minutes = 0

    async def start(self) -> None:
        head = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": self._node}}
        await self._whole.call("POST", METRICS, head | {"spec": {}})

    async def report(self, cpu: str) -> None:
        self._minutes += 1
        usage = {"resources": {"cpu": cpu, "memory": "1Gi"}}
        status = {
            "updateTime": f"2026-01-01T00:{self._minutes:02}:00Z",
            "nodeMetric": {"nodeUsage": usage, "systemUsage": usage},
        }
        await self._whole.patch(f"{METRICS}/{self._node}/status", {"status": status})
