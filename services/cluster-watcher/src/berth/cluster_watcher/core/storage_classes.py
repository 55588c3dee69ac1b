"""storage.k8s.io/v1 StorageClass: from the API server's object to what STATE says of it."""

from __future__ import annotations

from typing import Final

from berth.contracts import state
from berth.contracts.kube import StorageClass, TopologySelectorTerm
from berth.contracts.state import TopologyTerm
from berth.rules.reading.metadata import identity_of

TERMS_MAX: Final = 256
REQUIREMENTS_MAX: Final = 64
VALUES_MAX: Final = 1024
NOWHERE: Final = TopologyTerm(values={"": []})
"""A term that no node satisfies."""


def storage_class_of(item: StorageClass, version: int) -> state.StorageClass:
    """The class. An empty term matches nothing, and so do terms beyond the bounds."""
    return state.StorageClass(
        name=identity_of(item.metadata, []).name,
        version=version,
        provisioner=item.provisioner,
        binding_mode=item.volume_binding_mode,
        allowed=[_term(term) for term in (item.allowed_topologies or ())[:TERMS_MAX]],
    )


def _term(term: TopologySelectorTerm) -> TopologyTerm:
    """All requirements together: of two on one label, the values that both list."""
    requirements = term.match_label_expressions or []
    if not 1 <= len(requirements) <= REQUIREMENTS_MAX:
        return NOWHERE
    values: dict[str, list[str]] = {}
    for each in requirements:
        listed = (each.values or [])[:VALUES_MAX]
        values[each.key] = [one for one in listed if one in values[each.key]] if each.key in values else listed
    return TopologyTerm(values=values)
