"""Pods and containers that run, as the runtime has them, for who writes into their control groups."""

from __future__ import annotations

from typing import NamedTuple

from berth.node_qos_enforcer.core.inside.seen import Limits, PodSeen


class ContainerNow(NamedTuple):
    """A container as the runtime has it. `limits` are what kubelet asked for; None: not known."""

    id: str
    name: str
    limits: Limits | None
    runs: bool


class PodNow(NamedTuple):
    """A pod as the runtime has it."""

    pod: PodSeen
    containers: tuple[ContainerNow, ...]
