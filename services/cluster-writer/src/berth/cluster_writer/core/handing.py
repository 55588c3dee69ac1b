"""What a bind hands to the device plugins of its node, by the vendor that the node's Device names.

Only pods that were given an accelerator, and only vendors for which the hand-off is on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import granted
from berth.contracts.ledger import Decision
from berth.contracts.state import Device
from berth.vendors.given import read_given
from berth.vendors.handing_off import hand_off
from berth.vendors.registry import REGISTRY
from berth.vendors.vendor import Bind, Given, HandOff

GPU: Final = "gpu"
NOTHING: Final = HandOff()
OFF: Final[frozenset[str]] = frozenset()


def given_by(decision: Decision) -> tuple[Given, ...] | Problem:
    """The devices that the bind will note."""
    return read_given(decision.annotations.get(names.ANNOTATION_DEVICE_ALLOCATED, ""))


def asks_hand_off(decision: Decision, vendors: Collection[str]) -> bool:
    """Whether something is handed off if the node's devices are of one of these vendors."""
    return bool(vendors) and decision.kind == "pod" and any(g.kind == GPU for g in granted(decision.allocation))


def bind_of(
    decision: Decision, labels: Mapping[str, str], device: Device | None, vendors: Collection[str], time_ns: int
) -> Bind | Problem | None:
    """The bind as vendors see it; None where nothing is handed off. `labels` are the pod's, `time_ns` the time of the
    bind in Unix nanoseconds."""
    if device is None or not asks_hand_off(decision, vendors):
        return None
    vendor = REGISTRY.of(GPU, _label_of(device))
    if vendor is None or vendor.name not in vendors:
        return None
    given = given_by(decision)
    if isinstance(given, Problem):
        return given
    return Bind(
        node=decision.node,
        namespace=decision.namespace,
        pod=decision.name,
        time_ns=time_ns,
        given=given,
        model=device.labels.get(names.LABEL_GPU_MODEL, ""),
        pod_labels=labels,
    )


def handed(bind: Bind | Problem | None, device: Device | None) -> HandOff | Problem:
    """What is written for it, and under which lock."""
    if bind is None or device is None:
        return NOTHING
    return bind if isinstance(bind, Problem) else hand_off(bind, _label_of(device), REGISTRY)


def _label_of(device: Device) -> str:
    return device.labels.get(names.LABEL_GPU_VENDOR, "")
