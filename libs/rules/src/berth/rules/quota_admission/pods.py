"""What is wrong with a pod's choice of a quota."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from berth.contracts import names
from berth.rules.bounded_json import label_field
from berth.rules.quota_admission.quota import KnownQuotas, Refusal, Switches

_NAME: Final = label_field(names.LABEL_QUOTA_NAME)
_PREEMPTIBLE: Final = label_field(names.LABEL_QUOTA_PREEMPTIBLE)


class PodOfQuota(NamedTuple):
    """What of a pod counts here."""

    quota: str
    """Its quota: what its label says, or what the rules for pods without one come to."""
    preemptible: str = ""
    """The label; empty where it is absent."""


def pod_refusals(
    pod: PodOfQuota, known: KnownQuotas, *, old: PodOfQuota | None = None, switches: Switches | None = None
) -> Iterator[Refusal]:
    """Why a pod is not created, or (with `old`) not changed. One of an unknown quota goes to the default one."""
    quota = known.get(pod.quota)
    if quota is not None and quota.is_parent and not (switches or Switches()).parents_take_pods:
        yield Refusal("parentQuota", _NAME, f"quota {pod.quota!r} is a parent, and takes no pods itself")
    if old is not None and old.preemptible != pod.preemptible:
        yield Refusal("preemptibleChanged", _PREEMPTIBLE, f"was {old.preemptible!r} and cannot change")
