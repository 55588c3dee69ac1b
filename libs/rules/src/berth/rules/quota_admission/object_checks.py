"""What is wrong with one ElasticQuota, whatever is around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.bounded_json import annotation_field
from berth.rules.quota_admission.quota import Quota, Refusal


def object_refusals(quota: Quota) -> Iterator[Refusal]:
    """Negative amounts, a min beyond the max, a max below what is used where the object asks for that check."""
    yield from _negative(quota.max, "maxNegative", "spec.max")
    yield from _negative(quota.min, "minNegative", "spec.min")
    if quota.weight is not None and not isinstance(quota.weight, Problem):
        where = annotation_field(names.ANNOTATION_QUOTA_WEIGHT)
        yield from _negative(quota.weight, "sharedWeightNegative", where)
    for key, amount in sorted(quota.min.items()):
        limit = quota.max.get(key)
        if limit is None:
            yield Refusal("minKeyNotInMax", f"spec.min[{key}]", "is not named in spec.max")
        elif amount > limit:
            yield Refusal("minAboveMax", f"spec.min[{key}]", f"is above spec.max ({limit})")
    for key in dict.fromkeys(quota.strict_keys):
        used = quota.used.get(key)
        if used is None:
            continue
        limit = quota.max.get(key)
        if limit is None:
            yield Refusal("usedKeyNotInMax", f"spec.max[{key}]", f"is missing, and {used} is used")
        elif limit < used:
            yield Refusal("maxBelowUsed", f"spec.max[{key}]", f"is below what is used ({used})")


def _negative(amounts: Mapping[str, int], rule: str, where: str) -> Iterator[Refusal]:
    for key, amount in sorted(amounts.items()):
        if amount < 0:
            yield Refusal(rule, f"{where}[{key}]", "must not be negative")
