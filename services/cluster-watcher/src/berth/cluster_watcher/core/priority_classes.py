"""scheduling.k8s.io/v1 PriorityClass: from the API server's object to what STATE says of it."""

from __future__ import annotations

from typing import Final

from berth.contracts import state
from berth.contracts.kube import PriorityClass
from berth.rules.reading.metadata import identity_of

VALUE_MAX: Final = 2**31 - 1


def priority_class_of(item: PriorityClass, version: int) -> state.PriorityClass:
    """The priority class; a value beyond 32 bits is held within them."""
    return state.PriorityClass(
        name=identity_of(item.metadata, []).name,
        version=version,
        value=max(-VALUE_MAX - 1, min(VALUE_MAX, item.value)),
        global_default=item.global_default,
        preemption_policy=item.preemption_policy,
    )
