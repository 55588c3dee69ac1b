"""What the groups would come to: worked out on this reconciler itself, in a copy of the process that nobody uses after.

The figures are those of the engine, so they are what QUOTA would show once everything has been read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec

from berth.bus.port import Entry
from berth.contracts import subjects
from berth.contracts.base import Problem
from berth.contracts.codec import encode
from berth.contracts.quota import QuotaGroup
from berth.contracts.what_if import QuotasIfAnswer, QuotasIfQuestion, SupposedQuota
from berth.quota_manager.core.group import GroupSpec
from berth.quota_manager.reconciler import Reconciler
from berth.runtime import Moment

PODS_MAX: Final = 1000
QUOTAS_MAX: Final = 200
NAME_LENGTH_MAX: Final = 253
SHOWN: Final = 40


def problems_of(reconciler: Reconciler, question: QuotasIfQuestion) -> list[Problem]:
    """What keeps a question from being answered, by the path of the field."""
    return [Problem(field=field, message=message) for field, message in _wrong(reconciler, question)]


def _wrong(reconciler: Reconciler, question: QuotasIfQuestion) -> Iterator[tuple[str, str]]:
    pods = sum(max(0, each.count) for each in question.pods)
    if pods > PODS_MAX:
        yield "pods", f"{pods} pods are supposed, at most {PODS_MAX} are taken"
    if len(question.quotas) > QUOTAS_MAX:
        yield "quotas", f"names {len(question.quotas)} groups, at most {QUOTAS_MAX} are taken"
    for index, each in enumerate(question.quotas[:QUOTAS_MAX]):
        if _spec_of(reconciler, each) is None:
            shown = each.name if len(each.name) <= SHOWN else f"{each.name[:SHOWN]}..."
            yield f"quotas[{index}].name", f"there is no ElasticQuota {shown!r}"
        for field, amounts in (("min", each.min), ("max", each.max)):
            for name, amount in amounts.items():
                if amount < 0 or len(name) > NAME_LENGTH_MAX:
                    yield f"quotas[{index}].{field}[{name[:SHOWN]}]", f"{amount} is no amount of it"


def _spec_of(reconciler: Reconciler, quota: SupposedQuota) -> tuple[str, GroupSpec] | None:
    """The object that a group is made of, and its key; of several with the name the first."""
    for key in sorted(reconciler.view.shown):
        spec = reconciler.engine.spec_of(key)
        if spec is not None and spec.name == quota.name:
            return key, spec
    return None


def supposing(reconciler: Reconciler, question: QuotasIfQuestion, at: Moment) -> QuotasIfAnswer:
    """The groups whose messages would be others. The question has no problems."""
    for quota in question.quotas:
        found = _spec_of(reconciler, quota)
        if found is not None:
            key, spec = found
            changed = replace(spec, min={**spec.min, **quota.min}, max={**spec.max, **quota.max})
            reconciler.engine.put_quota(key, changed)
    for node in question.without_nodes:
        reconciler.view.apply(_entry(subjects.named_key("node", node), None))
    for each in question.pods:
        waiting = msgspec.structs.replace(each.pod, node="", phase="Pending", deleting=False)
        for index in range(each.count):
            name = f"{each.pod.name}-{index}" if each.count > 1 else each.pod.name
            key = subjects.pod_key(each.pod.namespace, name)
            reconciler.view.apply(_entry(key, encode(waiting)))
    reconciler.settle(at.monotonic)
    reconciler.reconsider()  # compares every group, not only those whose turn it is
    written = reconciler.writes(at.ms, reconciler.published.keys)
    groups = [message for message in written.values() if isinstance(message, QuotaGroup)]
    return QuotasIfAnswer(outcome="answered", groups=groups)


def _entry(key: str, value: bytes | None) -> Entry:
    return Entry(key, value or b"", value is None, 0, 0, False, None)
