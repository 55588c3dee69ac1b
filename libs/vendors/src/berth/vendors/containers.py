"""What a container gets of the devices of its pod, of every kind."""

from __future__ import annotations

from itertools import groupby

from berth.contracts.base import Problem
from berth.vendors.probe import Probe
from berth.vendors.registry import REGISTRY, Registry
from berth.vendors.vendor import Container, Edits, Given


def edits(
    given: tuple[Given, ...], container: Container, probe: Probe, *, gpu_vendor: str = "", registry: Registry = REGISTRY
) -> Edits | Problem:
    """The edits for these devices together; `gpu_vendor` is the node's label. Kinds that nobody knows get nothing."""
    merged = Edits()
    for kind, devices in groupby(sorted(given, key=lambda each: each.kind), key=lambda each: each.kind):
        vendor = registry.of(kind, gpu_vendor)
        if vendor is None:
            continue
        own = vendor.edits(container, tuple(devices), probe)
        if isinstance(own, Problem):
            return own
        merged = Edits(
            env={**merged.env, **own.env},
            mounts=merged.mounts + own.mounts,
            nodes=merged.nodes + own.nodes,
            folders=merged.folders + own.folders,
        )
    return merged
