"""What hooks say, by the messages of QUOTA, held against a claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from berth.contracts.quota import PodCharge, QuotaRules
from berth.contracts.state import Pod
from berth.rules.quota_hooks.seen import class_id, hooked_pod
from berth.transaction.claims import Claim


def hook_problems(claim: Claim, pod: Pod, rules: QuotaRules, known: Mapping[str, PodCharge]) -> Iterator[str]:
    """A surcharge that nobody has asked for, or another one than hooks ask for, and a pod that they refuse."""
    name = "/".join(claim.name)
    if not rules.hooks or not claim.quota:
        if claim.surcharge:
            yield f"{name}: is charged {claim.surcharge} beyond its request, of which no hook says anything"
        return
    said = known.get(class_id(hooked_pod(pod.namespace, pod.template)))
    if said is None or said.group != claim.quota.rpartition("/")[2]:
        yield f"{name}: what hooks say of it is not known"
        return
    if claim.surcharge != said.surcharge:
        yield f"{name}: is charged {claim.surcharge} beyond its request, hooks say {said.surcharge}"
    for refusal in said.refusals:
        yield f"{name}: hook {refusal.hook} refuses it: {refusal.message}"
