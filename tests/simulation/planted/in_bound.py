"""Bugs of what happens to a pod once it is bound."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import msgspec

from berth.cluster_writer.bind_executor import BindExecutor
from berth.cluster_writer.core.answers import Next
from berth.contracts import names
from berth.contracts.ledger import Decision
from berth.kube import resources

NOTE = names.ANNOTATION_DEVICE_ALLOCATED


def devices_rewritten() -> AbstractContextManager[object]:
    """The writer writes the devices of a pod once more when it is bound, with half of their amounts."""
    real = BindExecutor._bind

    async def bind(self: BindExecutor, decision: Decision, version: int) -> Next:
        following = await real(self, decision, version)
        text = decision.annotations.get(NOTE)
        if following is Next.DONE and decision.kind == "pod" and text:
            body = {"metadata": {"uid": decision.uid, "annotations": {NOTE: _halved(text)}}}
            await self._api.patch(resources.PODS, decision.namespace, decision.name, body)
        return following

    return patch.object(BindExecutor, "_bind", bind)


def _halved(text: str) -> str:
    kinds: dict[str, list[dict[str, Any]]] = msgspec.json.decode(text)
    for devices in kinds.values():
        for device in devices:
            device["resources"] = {
                name: str(int(amount) // 2) if str(amount).isdecimal() else amount
                for name, amount in device["resources"].items()
            }
    return msgspec.json.encode(kinds).decode()
