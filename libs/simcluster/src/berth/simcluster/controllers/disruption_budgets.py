"""The status of PodDisruptionBudgets: how many of their pods are healthy, and how many may be disrupted now."""

from __future__ import annotations

import random as random_module
from collections.abc import Iterable

from berth.simcluster.store.collection import Event
from berth.simcluster.store.eviction import DISRUPTED_S, budget_of, write_status
from berth.simcluster.store.objects import section
from berth.simcluster.store.resource import PDBS, PODS, REPLICA_SETS
from berth.simcluster.store.selectors import matches_label_selector
from berth.simcluster.store.state import State


class DisruptionBudgets:
    """See the module."""

    def __init__(self, delay_s: tuple[float, float]) -> None:
        """`delay_s`: how long it takes to react."""
        self.delay_s = delay_s

    def every(self, state: State) -> Iterable[str]:
        """All of them."""
        return list(state.of(PDBS).items)

    def keys(self, state: State, event: Event) -> Iterable[str]:
        """The budget itself, or those that select a pod as it is or was; all of a namespace when replicas change."""
        if event.resource is PDBS:
            return (event.obj.key,)
        if event.resource is not PODS and event.resource is not REPLICA_SETS:
            return ()
        budgets = list(state.of(PDBS).scan(event.obj.meta["namespace"], {}))
        if event.resource is REPLICA_SETS:
            return [budget.key for budget in budgets]
        labels = [section(pod.meta, "labels") for pod in (event.obj, event.prev) if pod is not None]
        return [
            budget.key
            for budget in budgets
            if any(matches_label_selector(section(budget.data, "spec").get("selector"), each) for each in labels)
        ]

    def reconcile(self, state: State, key: str, random: random_module.Random) -> float | None:
        """Count, and once more when a pod that was to go is still there."""
        budget = state.of(PDBS).items.get(key)
        if budget is None:
            return None
        budget = write_status(state, budget, budget_of(state, budget.meta["namespace"], budget.data))
        return DISRUPTED_S + 1 if section(budget.data, "status").get("disruptedPods") else None
