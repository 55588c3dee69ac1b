"""scheduling.koordinator.sh ClusterNetworkTopology: from the API server's object to what STATE says of it."""

from __future__ import annotations

from typing import Final

from berth.contracts import state
from berth.contracts.kube import ClusterNetworkTopology, NetworkLayer
from berth.rules.network_topology.layers import FIELD, LAYERS_MAX
from berth.rules.network_topology.status import digest
from berth.rules.reading.findings import Found, problems_of
from berth.rules.reading.metadata import identity_of

TEXT_LENGTH_MAX: Final = 316
"""Longest name of a layer or key of a label: a prefix of 253 characters, a slash, 63 more."""
KEYS_MAX: Final = 16


def network_topology_of(item: ClusterNetworkTopology, version: int) -> state.ClusterNetworkTopology:
    """The layers as they are listed; a list that is too long, or holds a text that is, is a problem and empty."""
    found: Found = []
    listed = item.spec.network_topology_spec or []
    if len(listed) > LAYERS_MAX:
        found.append((FIELD, f"lists {len(listed)} layers, at most {LAYERS_MAX} are accepted"))
    for at, each in enumerate(listed[:LAYERS_MAX]):
        _check(each, f"{FIELD}[{at}]", found)
    layers = [
        state.NetworkLayer(
            name=each.topology_layer, parent=each.parent_topology_layer, label_keys=list(each.label_key or ())
        )
        for each in listed
    ]
    return state.ClusterNetworkTopology(
        name=identity_of(item.metadata, found).name,
        uid=item.metadata.uid,
        version=version,
        layers=[] if found else layers,
        status=digest(item.status.detail_status) if item.status.detail_status is not None else "",
        problems=problems_of(found),
    )


def _check(layer: NetworkLayer, field: str, found: Found) -> None:
    keys = layer.label_key or ()
    if len(keys) > KEYS_MAX:
        found.append((f"{field}.labelKey", f"has {len(keys)} keys, at most {KEYS_MAX} are accepted"))
    texts = {"topologyLayer": layer.topology_layer, "parentTopologyLayer": layer.parent_topology_layer}
    texts |= {f"labelKey[{at}]": key for at, key in enumerate(keys[:KEYS_MAX])}
    for name, text in texts.items():
        if len(text) > TEXT_LENGTH_MAX:
            found.append((f"{field}.{name}", f"has {len(text)} characters, at most {TEXT_LENGTH_MAX} are accepted"))
