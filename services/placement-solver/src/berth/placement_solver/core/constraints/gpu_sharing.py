"""GPUSharing: a part of a GPU goes to nodes that isolate it as the pod asks, and whose model may be shared."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.state import Node
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Depends, Mask, Rejected, Rejection, RowArray, Rows, Spec, Target
from berth.rules.devices.columns import GPU
from berth.rules.devices.request import read_request
from berth.rules.devices.want import gpu_want
from berth.rules.scheduler_config import DeviceShareArgs

NOT_ISOLATED: Final = "GPUIsolationProviderHAMICore not found on the node"
"""Koordinator's text, whatever the provider is called."""
NOT_SHARED: Final = "node(s) whose GPU model is not shared"
REPAIRS: Final = {
    NOT_ISOLATED: f"have a node isolate shares of GPUs (label {names.LABEL_GPU_ISOLATION}), or ask without the label",
    NOT_SHARED: "ask for whole GPUs",
}


class SharingQuery(NamedTuple):
    """The isolation that is asked for, in lower case and empty for none, and models that are not shared."""

    isolation: str
    unsupported: frozenset[tuple[str, str]]


class GPUSharing:
    """What a node says is read off its labels alone. Names of isolation are the same in upper and lower case."""

    name = "GPUSharing"
    depends = Depends.NODE
    exact = True

    def __init__(self, nodes: Nodes, args: DeviceShareArgs) -> None:
        self._nodes = nodes
        self._unsupported = frozenset((each.vendor, each.model) for each in args.unsupported)

    def prefilter(self, spec: Spec) -> SharingQuery | None:
        """See `Constraint`."""
        template = spec.template
        query = SharingQuery(template.labels.get(names.LABEL_GPU_ISOLATION, "").lower(), self._unsupported)
        if not query.isolation and not query.unsupported:
            return None
        request = read_request(template.requests, template.annotations)
        if isinstance(request, Problem) or GPU.name not in request.amounts:
            return None
        want = gpu_want(request.amounts[GPU.name])
        return query if want is not None and (want.shared or request.split is not None) else None

    def mask(self, query: SharingQuery, rows: Rows) -> Mask:
        """See `Constraint`."""
        states = self._nodes.states
        found: Mask = np.zeros(self._nodes.alive[rows].shape, np.bool_)
        which = range(*rows.indices(len(states))) if isinstance(rows, slice) else rows.tolist()
        for place, row in enumerate(which):
            found[place] = not _reason(query, states[row])
        return found

    def admits(self, query: SharingQuery, row: int) -> bool:
        """See `Constraint`."""
        return not _reason(query, self._nodes.states[row])

    def filter(self, query: SharingQuery, target: Target) -> Rejection | None:
        """See `Constraint`."""
        reason = _reason(query, self._nodes.states[target.row])
        return Rejection((reason,), resolvable=False) if reason else None

    def rejections(self, query: SharingQuery, rows: RowArray) -> list[Rejected]:
        """See `Constraint`."""
        reasons = np.array([_reason(query, self._nodes.states[row]) for row in rows.tolist()], np.str_)
        return [Rejected(each, reasons == each, resolvable=False, repair=words) for each, words in REPAIRS.items()]


def _reason(query: SharingQuery, node: Node | None) -> str:
    labels = node.labels if node is not None else {}
    if query.isolation and labels.get(names.LABEL_GPU_ISOLATION, "").lower() != query.isolation:
        return NOT_ISOLATED
    model = (labels.get(names.LABEL_GPU_VENDOR, ""), labels.get(names.LABEL_GPU_MODEL, ""))
    return NOT_SHARED if model in query.unsupported else ""
