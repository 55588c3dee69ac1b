"""Older names of device resources and labels, read as today's.

Koordinator published devices under `kubernetes.io/` before it had its own prefix, and agents of that time are still
around. Where both names are given, today's wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from berth.contracts import names

T = TypeVar("T")

RESOURCES: Final[Mapping[str, str]] = {
    "kubernetes.io/rdma": names.RDMA,
    "kubernetes.io/fpga": names.FPGA,
    "kubernetes.io/gpu": names.KOORD_GPU,
    "kubernetes.io/gpu-core": names.GPU_CORE,
    "kubernetes.io/gpu-memory": names.GPU_MEMORY,
    "kubernetes.io/gpu-memory-ratio": names.GPU_MEMORY_RATIO,
}
LABELS: Final[Mapping[str, str]] = {
    "kubernetes.io/gpu-model": names.LABEL_GPU_MODEL,
    "kubernetes.io/gpu-driver": names.LABEL_GPU_DRIVER,
}


def renamed(given: Mapping[str, T], todays: Mapping[str, str]) -> dict[str, T]:
    """`given` with older names replaced by today's."""
    if todays.keys().isdisjoint(given):
        return dict(given)
    old = {todays[name]: value for name, value in given.items() if name in todays}
    return old | {name: value for name, value in given.items() if name not in todays}
