"""Decisions as a solver would make them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from tests.services.worlds.writer.objects import GPU_NAMES

from berth.contracts import names, state, subjects
from berth.contracts.ledger import Allocation, Decision, DeviceGrant


def make_decision(
    pod: state.Pod, plan: str, node: str, *, minors: Iterable[int] = (), basis: int = 0, **more: Any
) -> Decision:
    """The decision of a plan for a pod, with the annotations of its bind."""
    grants = [DeviceGrant(kind="gpu", minor=minor, amounts=dict.fromkeys(GPU_NAMES, 100)) for minor in minors]
    notes = {names.ANNOTATION_PLAN: plan}
    if grants:
        listed = [{"minor": g.minor, "resources": {k: str(v) for k, v in g.amounts.items()}} for g in grants]
        notes[names.ANNOTATION_DEVICE_ALLOCATED] = msgspec.json.encode({"gpu": listed}).decode()
    fields = {
        "plan": plan,
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "attempt": pod.attempt,
        "node": node,
        "pod_version": pod.version,
        "basis": basis,
        "allocation": Allocation(amounts=pod.template.requests, devices=grants),
        "accounts": [subjects.node_account(node)],
        "annotations": notes,
    }
    return Decision(**(fields | more))
