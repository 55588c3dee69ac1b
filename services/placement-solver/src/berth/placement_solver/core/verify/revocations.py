"""Who may be made to leave a group that has been over its runtime for too long, whoever would gain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.contracts.state import Pod
from berth.placement_solver.core.verify.nominations import units_of
from berth.placement_solver.core.verify.reclaims import Key, Used, held_by, leaving_of
from berth.placement_solver.core.verify.view import View
from berth.rules.preemption import why_protected
from berth.rules.quota_of_pod import ROOT_GROUP, SYSTEM_GROUP


def revocation_problems(key: Key, victims: Sequence[Pod], view: View, used: Used) -> Iterator[str]:
    """What keeps these from leaving. Without any unit of them the group would use more than its runtime still, when all
    others have left, and those that are leaving already."""
    group = view.quotas.groups.get(key)
    if group is None or not group.over_since_ms or group.name in (ROOT_GROUP, SYSTEM_GROUP):
        yield f"quota {key[1]} gives nothing back"
        return
    left = dict(used(key))
    for claim in (*leaving_of(key[0], view), *held_by(victims, view)):
        tree, _, name = claim.quota.rpartition("/")
        payer = view.quotas.groups.get((tree, name))
        if tree == key[0] and (name == key[1] or (payer is not None and key[1] in payer.ancestors)):
            for resource, amount in claim.charged.items():
                left[resource] = left.get(resource, 0) - amount
    for victim in victims:
        who = f"victim {victim.namespace}/{victim.name}"
        seen = view.book.pods.get((victim.namespace, victim.name))
        if seen is None or (seen.uid, seen.version, seen.node) != (victim.uid, victim.version, victim.node):
            yield f"{who} is not on node {victim.node} as it was chosen"
        elif protected := why_protected(seen):
            yield f"{who} is protected: {protected}"
    for unit in units_of(victims, view):
        back = dict(left)
        for claim in held_by(unit, view):
            if claim.quota != "/".join(key):
                yield f"victim {unit[0].namespace}/{unit[0].name} is not charged to quota {key[1]} alone"
            for resource, amount in claim.charged.items():
                back[resource] = back.get(resource, 0) + amount
        if not any(back.get(resource, 0) > limit for resource, limit in group.runtime.items()):
            yield f"victim {unit[0].namespace}/{unit[0].name} may as well stay"
