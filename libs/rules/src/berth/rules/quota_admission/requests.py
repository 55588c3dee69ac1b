"""What is wrong with a request to create, change or delete an ElasticQuota, or with one that is there.

Every answer is an iterator of refusals in the documented order; none means that the request is admitted.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.rules.quota_admission.object_checks import object_refusals
from berth.rules.quota_admission.quota import KnownQuotas, Quota, Refusal, Switches
from berth.rules.quota_admission.tree_checks import namespace_refusals, tree_refusals
from berth.rules.quota_of_pod import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP

_NAME = "metadata.name"


def creation_refusals(quota: Quota, known: KnownQuotas, switches: Switches | None = None) -> Iterator[Refusal]:
    """Why an ElasticQuota (with its defaults) is not created. Names are taken cluster-wide."""
    if known.get(quota.name) is not None:
        yield Refusal("nameTaken", _NAME, "names of quotas are unique in the cluster")
    yield from namespace_refusals(quota, known)
    yield from object_refusals(quota)
    yield from tree_refusals(quota, known, switches=switches)


def update_refusals(
    quota: Quota, known: KnownQuotas, *, bound_pods: int = 0, switches: Switches | None = None
) -> Iterator[Refusal]:
    """Why an ElasticQuota is not changed to this. The version before is what is known."""
    if quota.name in (SYSTEM_GROUP, ROOT_GROUP):
        yield Refusal("protected", _NAME, "this quota cannot be changed")
    old = known.get(quota.name)
    yield from namespace_refusals(quota, known)
    if old is None:
        yield Refusal("notFound", _NAME, "there is no such quota")
    yield from object_refusals(quota)
    yield from tree_refusals(quota, known, old=old, bound_pods=bound_pods, switches=switches)


def deletion_refusals(name: str, known: KnownQuotas, *, bound_pods: int = 0) -> Iterator[Refusal]:
    """Why an ElasticQuota is not deleted."""
    if name in (SYSTEM_GROUP, ROOT_GROUP, DEFAULT_GROUP):
        yield Refusal("protected", _NAME, "this quota cannot be deleted")
    if known.get(name) is None:
        yield Refusal("notFound", _NAME, "there is no such quota")
    children = known.children_of(name)
    if children:
        yield Refusal("hasChildren", _NAME, f"quota {min(children)!r} is below it")
    if bound_pods:
        yield Refusal("hasPods", _NAME, f"{bound_pods} pods belong to it")


def standing_refusals(quota: Quota, known: KnownQuotas, switches: Switches | None = None) -> Iterator[Refusal]:
    """What admission would refuse of an ElasticQuota that is there: it slipped by, or the others moved since."""
    if quota.name in (SYSTEM_GROUP, ROOT_GROUP, DEFAULT_GROUP):
        return
    yield from namespace_refusals(quota, known)
    yield from object_refusals(quota)
    yield from tree_refusals(quota, known, old=quota, switches=switches)
