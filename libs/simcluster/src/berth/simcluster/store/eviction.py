"""`pods/eviction` and the arithmetic of disruption budgets.

The numbers are computed from the pods that the selector lists, whenever they are needed, and written into the budget's
status when an eviction uses it; where controllers run, one of them keeps that status between evictions. Pods of a
ReplicaSet count with the replicas that it wants, all others with what there is of them.
"""

import math
from typing import Any, NamedTuple

from berth.simcluster.store.deleting import Deleted, Options, delete, options_from
from berth.simcluster.store.objects import Json, Obj, condition_status, section, with_condition
from berth.simcluster.store.resource import PDBS, PODS, REPLICA_SETS
from berth.simcluster.store.selectors import matches_label_selector
from berth.simcluster.store.shapes import Eviction, check
from berth.simcluster.store.state import State, timestamp
from berth.simcluster.store.status import ApiError, bad_request

DISRUPTED_S = 120.0
"""How long a pod whose eviction was counted is expected to go (the disruption controller's `DeletionTimeout`)."""
_ENDED = ("Succeeded", "Failed")


class Budget(NamedTuple):
    """The numbers of one PodDisruptionBudget, in pods."""

    expected: int
    desired: int
    healthy: int

    @property
    def allowed(self) -> int:
        """How many healthy pods may be disrupted now; nothing is allowed while no pod is expected."""
        return max(0, self.healthy - self.desired) if self.expected > 0 else 0


def evict(state: State, namespace: str, name: str, eviction: Json) -> Deleted:
    """Delete a pod unless a budget forbids it (429). Pods that don't run, or are ending, need no budget."""
    check(eviction, Eviction, "Eviction")
    meta = section(eviction, "metadata")
    if meta.get("name") not in (None, "", name):
        raise bad_request("name in URL does not match name in Eviction object")
    options = options_from(section(eviction, "deleteOptions"))
    pods = state.of(PODS)
    pod = state.need(pods, namespace, name)
    if not _ignores_budgets(pod):
        _charge(state, namespace, pod, options)
    is_meant = (not options.uid or options.uid == pod.uid) and (
        not options.version or options.version == pod.meta["resourceVersion"]
    )
    if "deletionTimestamp" not in pod.meta and not options.dry_run and is_meant:
        pod = _mark(state, pod)
        options = options._replace(version="")
    return delete(state, pods, pod, options)


def _mark(state: State, pod: Obj) -> Obj:
    """Say in the pod's status why it ends, before it does."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
        "lastTransitionTime": state.stamp(),
    }
    status = section(pod.data, "status")
    data = {**pod.data, "metadata": dict(pod.meta)}
    data["status"] = {**status, "conditions": with_condition(status.get("conditions"), condition)}
    return state.replace(state.of(PODS), pod, data)


def _ignores_budgets(pod: Obj) -> bool:
    return section(pod.data, "status").get("phase") in (*_ENDED, "Pending") or "deletionTimestamp" in pod.meta


def _charge(state: State, namespace: str, pod: Obj, options: Options) -> None:
    labels = section(pod.meta, "labels")
    collection = state.of(PDBS)
    matching = [
        pdb
        for pdb in collection.scan(namespace, {})
        if matches_label_selector(section(pdb.data, "spec").get("selector"), labels)
    ]
    if not matching:
        return
    if len(matching) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(500, "InternalError", text)
    pdb = matching[0]
    budget = budget_of(state, namespace, pdb.data)
    if condition_status(pod.data, "Ready") != "True" and _unready_may_go(pdb.data, budget):
        return
    if budget.allowed <= 0:
        why = f"The disruption budget {pdb.meta['name']} needs {budget.desired} healthy pods "
        why += f"and has {budget.healthy} currently"
        raise ApiError(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
            {"causes": [{"reason": "DisruptionBudget", "message": why}]},
        )
    if not options.dry_run:
        write_status(state, pdb, budget, taken=pod)  # also where a precondition is about to fail


def _unready_may_go(pdb: Json, budget: Budget) -> bool:
    if section(pdb, "spec").get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return budget.healthy >= budget.desired > 0


def budget_of(state: State, namespace: str, pdb: Json) -> Budget:
    """The numbers of a budget, counted from the pods it selects that have not ended."""
    spec = section(pdb, "spec")
    selector, disrupted = spec.get("selector"), disrupted_of(state, namespace, pdb)
    count = healthy = 0
    scales: dict[str, int] = {}
    for pod in state.of(PODS).scan(namespace, {}):
        if not matches_label_selector(selector, section(pod.meta, "labels")):
            continue
        if section(pod.data, "status").get("phase") in _ENDED:
            continue
        owner = _owner(state, namespace, pod)
        if owner is None:
            count += 1
        else:
            scales[owner.uid] = max(0, int(section(owner.data, "spec").get("replicas", 1)))
        if "deletionTimestamp" not in pod.meta and pod.meta["name"] not in disrupted:
            healthy += condition_status(pod.data, "Ready") == "True"
    expected = count + sum(scales.values())
    return Budget(expected, _desired(spec, expected), healthy)


def disrupted_of(state: State, namespace: str, pdb: Json) -> Json:
    """Of `disruptedPods` those whose deletion is still to come; after two minutes it never will."""
    oldest = timestamp(state.clock() - DISRUPTED_S)
    pods = state.of(PODS).items
    return {
        name: when
        for name, when in section(section(pdb, "status"), "disruptedPods").items()
        if isinstance(when, str) and when > oldest
        if (pod := pods.get(f"{namespace}/{name}")) is not None and "deletionTimestamp" not in pod.meta
    }


def _owner(state: State, namespace: str, pod: Obj) -> Obj | None:
    for reference in pod.meta.get("ownerReferences") or ():
        if reference.get("controller") and reference.get("kind") == "ReplicaSet":
            owner = state.of(REPLICA_SETS).items.get(f"{namespace}/{reference.get('name')}")
            return owner if owner is not None and owner.uid == reference.get("uid") else None
    return None


def _desired(spec: Json, expected: int) -> int:
    """policy/v1: percentages are rounded up, for both bounds."""
    if spec.get("maxUnavailable") is not None:
        return max(0, expected - _scaled(spec["maxUnavailable"], expected))
    if spec.get("minAvailable") is not None:
        return _scaled(spec["minAvailable"], expected)
    return max(0, expected - 1)


def _scaled(amount: Any, total: int) -> int:
    if isinstance(amount, str):
        return math.ceil(int(amount[:-1]) * total / 100)
    return int(amount)


def write_status(state: State, pdb: Obj, budget: Budget, *, taken: Obj | None = None) -> Obj:
    """Put the numbers into the budget's status; unchanged numbers write nothing.

    `taken` is the pod whose eviction is counted now: it is named in `disruptedPods` until its deletion shows.
    """
    before = section(pdb.data, "status")
    disrupted = disrupted_of(state, pdb.meta["namespace"], pdb.data)
    if taken is not None:
        disrupted[taken.meta["name"]] = state.stamp()
    status = {
        **{field: value for field, value in before.items() if field != "disruptedPods"},
        **({"disruptedPods": disrupted} if disrupted else {}),
        "observedGeneration": pdb.meta.get("generation", 1),
        "disruptionsAllowed": max(0, budget.allowed - (taken is not None)),
        "currentHealthy": budget.healthy,
        "desiredHealthy": budget.desired,
        "expectedPods": budget.expected,
    }
    if status == pdb.data.get("status"):
        return pdb
    return state.replace(state.of(PDBS), pdb, {**pdb.data, "metadata": dict(pdb.meta), "status": status})
