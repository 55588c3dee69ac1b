"""What became of whom."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.contracts.question import WhyQuestion
from berth.contracts.what_if import WhatIfAnswer, WhatIfPod, WhatIfVictim
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.what_if.running import Ended
from berth.placement_solver.why import answer as answer_why
from berth.transaction.claims import Name

PODS_MAX: Final = 1500
VICTIMS_MAX: Final = 1000
OUTCOMES: Final = {"bound": "placed", "decided": "placed"}


def told(
    cluster: ClusterView, asked: Iterable[Name], moved: Iterable[Name], waited: Iterable[Name], ended: Ended
) -> WhatIfAnswer:
    """The answer, without what it stands on. Of those who `waited` only who has a place now is told of."""
    victims_of: dict[Name, list[str]] = {}
    for left in ended.left.values():
        for name in left.beneficiaries:
            victims_of.setdefault(name, []).append(f"{left.victim.namespace}/{left.victim.name}")
    listed = [(name, "asked") for name in asked] + [(name, "moved") for name in moved]
    seen = {name for name, _ in listed}
    for name in waited:
        pod = cluster.book.pods.get(name)
        if name not in seen and pod is not None and pod.node:
            listed.append((name, "waiting"))
    pods = [_of_pod(cluster, name, origin, sorted(victims_of.get(name, ()))) for name, origin in listed[:PODS_MAX]]
    victims = [
        WhatIfVictim(
            name=f"{left.victim.namespace}/{left.victim.name}",
            node=left.victim.node,
            beneficiaries=["/".join(each) for each in left.beneficiaries],
            reason=left.reason,
        )
        for _, left in sorted(ended.left.items())
    ]
    return WhatIfAnswer(
        outcome="answered",
        pods=pods,
        victims=victims[:VICTIMS_MAX],
        left_out=max(0, len(listed) - PODS_MAX) + max(0, len(victims) - VICTIMS_MAX),
        is_cut_off=ended.is_cut_off,
        rounds=ended.rounds,
        solver=cluster.me,
    )


def _of_pod(cluster: ClusterView, name: Name, origin: str, victims: list[str]) -> WhatIfPod:
    why = answer_why(cluster, WhyQuestion(namespace=name[0], name=name[1]))
    return WhatIfPod(
        name="/".join(name),
        origin=origin,
        outcome=OUTCOMES.get(why.outcome, why.outcome),
        node=why.node,
        grants=why.grants,
        quota=why.quota,
        reservation=why.reservation,
        gang=why.gang,
        victims=victims,
        message="" if why.outcome in OUTCOMES else why.message,
        reasons=why.reasons,
        problems=why.problems,
    )
