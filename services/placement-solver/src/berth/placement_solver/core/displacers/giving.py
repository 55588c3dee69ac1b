"""Who may be made to leave for the sake of quota: of the pods that groups pay for, those that nothing keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from berth.contracts.state import Pod
from berth.placement_solver.core.displacers.lenders import Key
from berth.placement_solver.core.displacers.one_node import about_to_leave
from berth.placement_solver.core.displacers.seam import Ground
from berth.rules import preemption
from berth.rules.preemption import importance
from berth.rules.quota_reclaim import Charged
from berth.transaction.claims import Claim


class Giving:
    """The pods of a view with the groups that pay for them; `stays` says of a pod that it is nobody's victim."""

    def __init__(self, ground: Ground, stays: Callable[[Pod], bool]) -> None:
        self._ground = ground
        self._stays = stays

    def charged_pod(self, claim: Claim) -> Charged | None:
        """The pod of a claim, if it is bound, with its group."""
        pod = self._ground.book.pods.get(claim.name)
        if pod is None or (pod.uid, pod.node) != (claim.uid, claim.node) or not claim.quota:
            return None
        return Charged(pod, claim.quota.rpartition("/")[2], claim.charged)

    def victim_of(self, claim: Claim, refused: Collection[str]) -> Charged | None:
        """The pod of a claim, if it may be made to leave at all and is not leaving yet. Who draws on a Reservation
        stays: its capacity is the Reservation's."""
        found = self.charged_pod(claim)
        if found is None or claim.reservation or found.pod.deleting or found.pod.uid in refused:
            return None
        return None if preemption.why_protected(found.pod) or self._stays(found.pod) else found

    def leaving(self, tree: str) -> Iterator[Charged]:
        """Those of a tree that are terminating, or victims of a nomination that stands."""
        named = {each.uid for each in about_to_leave(self._ground.book)}
        for group in self._ground.charged.groups(tree):
            for claim in self._ground.charged.of(tree, group):
                found = self.charged_pod(claim)
                if found is not None and (found.pod.deleting or found.pod.uid in named):
                    yield found

    def used(self, tree: str, leaving: Collection[str]) -> dict[str, dict[str, int]]:
        """What each group of a tree uses in its whole subtree, without pods of these uids. What pods are nominated to
        nobody uses yet."""
        groups, used = self._ground.capacity.quotas.groups, dict[str, dict[str, int]]()
        for name in self._ground.charged.groups(tree):
            own: dict[str, int] = {}
            for claim in self._ground.charged.of(tree, name):
                if claim.uid not in leaving:
                    for resource, amount in claim.charged.items():
                        own[resource] = own.get(resource, 0) + amount
            group = groups.get((tree, name))
            for each in (name, *(group.ancestors if group is not None else ())):
                above = used.setdefault(each, {})
                for resource, amount in own.items():
                    above[resource] = above.get(resource, 0) + amount
        return used

    def groups_of(self, victims: Iterable[Pod]) -> tuple[Key, ...]:
        """The groups that pay for these."""
        found: set[Key] = set()
        for victim in victims:
            for claim in self._ground.book.claims_on(victim.node):
                if claim.uid == victim.uid:
                    tree, _, name = claim.quota.rpartition("/")
                    found.add((tree, name))
        return tuple(sorted(found))


def unprotected(found: Sequence[Charged], budgets: preemption.Budgets) -> list[Charged]:
    """Those whom no disruption budget protects, if the least important of them leave first; in that order. Whom two
    budgets select the API server does not evict at all."""
    least = sorted(
        (each for each in found if len(budgets.of(each.pod)) < 2),
        key=lambda each: importance(each.pod),
        reverse=True,
    )
    _, others = budgets.split(each.pod for each in least)
    free = {pod.uid for pod in others}
    return [each for each in least if each.pod.uid in free]
