"""Nodes, and what agents of others say of them."""

from __future__ import annotations

from typing import Any

from berth.contracts.base import Integer, Message, Problem
from berth.contracts.kube import Taint
from berth.contracts.state.amounts import Amounts


class Node(Message, frozen=True, kw_only=True, tag="node.seen.v1"):
    """A node with what it offers. `ready` repeats its Ready condition, `unschedulable` that it is cordoned.

    `allocatable` is without what the node's annotation `reservation` keeps from pods. `images` has the size in bytes of
    each image there, by every name that it has.
    """

    name: str
    uid: str
    version: Integer
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    allocatable: Amounts = {}
    capacity: Amounts = {}
    taints: list[Taint] = []
    unschedulable: bool = False
    ready: bool = False
    deleting: bool = False
    created: str = ""
    images: dict[str, Integer] = {}
    problems: list[Problem] = []


class NodeResourceTopology(Message, frozen=True, kw_only=True, tag="noderesourcetopology.seen.v1"):
    """Cores and NUMA nodes as reported, kept as read. `uid` is empty where nobody carries it."""

    name: str
    version: Integer
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    zones: list[dict[str, Any]] = []
    policies: list[str] = []
    deleting: bool = False


class NodeMetric(Message, frozen=True, kw_only=True, tag="nodemetric.seen.v1"):
    """Usage as an agent of the protocol reports it, kept as read. `report_interval_s` is what its policy says, 0 where
    that says nothing."""

    name: str
    version: Integer
    report_interval_s: Integer = 0
    status: dict[str, Any] = {}


class NodeSLO(Message, frozen=True, kw_only=True, tag="nodeslo.seen.v1"):
    """A NodeSLO object, as far as it says what became of slo-manager's requests for it; `name` is its node's.

    `revision` is that of the request that it was last written for (0: it says none), `owner_uid` the uid of the node
    that owns it (empty: no node does).
    """

    name: str
    uid: str
    version: Integer
    revision: Integer = 0
    owner_uid: str = ""
