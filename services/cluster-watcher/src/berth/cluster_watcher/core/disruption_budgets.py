"""policy/v1 PodDisruptionBudget: from the API server's object to what STATE says of it."""

from __future__ import annotations

from typing import Final

from berth.contracts import state
from berth.contracts.kube import PodDisruptionBudget
from berth.rules.reading.metadata import identity_of

DISRUPTED_MAX: Final = 1024
"""Names of pods; one that is left out counts against the budget once more."""


def disruption_budget_of(item: PodDisruptionBudget, version: int) -> state.PodDisruptionBudget:
    """The budget; percentages stay text, negative counts become 0: nothing may be disrupted then."""
    namespace, name = identity_of(item.metadata, [])
    return state.PodDisruptionBudget(
        namespace=namespace,
        name=name,
        version=version,
        selector=item.spec.selector,
        min_available=item.spec.min_available,
        max_unavailable=item.spec.max_unavailable,
        disruptions_allowed=max(0, item.status.disruptions_allowed),
        disrupted=sorted(item.status.disrupted_pods or ())[:DISRUPTED_MAX],
    )
