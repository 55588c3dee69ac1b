"""A pod's choice of a quota, and whether that has room for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth.contracts.names import LABEL_QUOTA_NAME, LABEL_QUOTA_PREEMPTIBLE
from berth.resources.amounts import Amounts, parse_amounts
from berth.resources.pod_request import ContainerAmounts, PodAmounts, pod_requests
from berth.rules.admission import gates
from berth.rules.admission.draft import list_in, mapping_in, texts_in
from berth.rules.admission.seam import CREATE, UPDATE, Case
from berth.rules.bounded_json import label_field
from berth.rules.quota_admission.bookings import Asked, book
from berth.rules.quota_admission.pods import PodOfQuota, pod_refusals
from berth.rules.quota_admission.quota import Switches
from berth.rules.quota_of_pod import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP

EXEMPT: Final = frozenset({ROOT_GROUP, SYSTEM_GROUP, DEFAULT_GROUP})
_LABEL: Final = label_field(LABEL_QUOTA_NAME)


def switches(on: gates.Gates) -> Switches:
    """What the gates say about quotas."""
    return Switches(
        strict_keys=gates.KEYS_MAY_DIFFER not in on,
        guarantees_use=gates.GUARANTEES_USE in on,
        parents_take_pods=gates.PARENTS_TAKE_PODS in on,
    )


def run(case: Case) -> None:
    """The rule: the quota's kind, and the label that must not change."""
    pod = _of(case, case.draft.now)
    old = _of(case, case.request.old_object or {}) if case.request.operation == UPDATE else None
    for refusal in pod_refusals(pod, case.views.quotas, old=old, switches=switches(case.gates)):
        if old is None or refusal.rule != "parentQuota" or old.quota != pod.quota:
            case.refuse(*refusal)


def booking(case: Case) -> None:
    """The rule of admission by quota: what its pods ask for together stays within the limit.

    Nothing is written: what is booked is what the pods that are there ask for, so that a dry run books nothing, and
    replicas need no order among them. Between a pod and the moment it is seen another may slip in; that is reported.
    """
    views, operation = case.views, case.request.operation
    name = _of(case, case.draft.now).quota
    if name in EXEMPT or not name:
        return
    if operation == UPDATE and _of(case, case.request.old_object or {}).quota == name:
        return
    quota = views.quotas.get(name)
    if quota is None:
        case.refuse("noQuota", _LABEL, f"there is no quota {name!r}")
        return
    if name in views.quota_namesakes:
        case.refuse("ambiguousQuota", _LABEL, f"there are several quotas {name!r}")
        return
    request = pod_request(case.draft.now, ignores_overhead=gates.IGNORES_OVERHEAD in case.gates)
    [excess], _ = book(
        quota.max, views.quota_limits.get(name, {}), views.booked(name), [Asked(operation or CREATE, request)]
    )
    if excess is not None:
        case.refuse("exceededQuota", _LABEL, excess.text(quota.namespace, name))


def pod_request(pod: Mapping[str, Any], *, ignores_overhead: bool = False) -> Amounts:
    """What a pod asks for; amounts that cannot be read are left out."""
    containers, init_containers = (
        list(_containers(list_in(pod, "spec", each))) for each in ("containers", "initContainers")
    )
    level = _amounts(mapping_in(pod, "spec", "resources").get("requests"))
    overhead = {} if ignores_overhead else _amounts(mapping_in(pod, "spec").get("overhead"))
    return pod_requests(PodAmounts(containers, init_containers, level, overhead))


def _containers(written: Any) -> Iterator[ContainerAmounts]:
    for container in written:
        requests = mapping_in(container, "resources").get("requests")
        yield ContainerAmounts(_amounts(requests), mapping_in(container).get("restartPolicy") == "Always")


def _amounts(written: Any) -> Amounts:
    return parse_amounts(written, "")[0] if written else {}


def _of(case: Case, pod: Mapping[str, Any]) -> PodOfQuota:
    labels = texts_in(pod, "metadata", "labels")
    quota = case.views.quota_map.group_of(labels.get(LABEL_QUOTA_NAME, ""), case.request.namespace)
    return PodOfQuota(quota or "", labels.get(LABEL_QUOTA_PREEMPTIBLE, ""))
