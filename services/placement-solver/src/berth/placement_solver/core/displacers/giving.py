"""Who may be made to leave for the sake of quota: of the pods that groups pay for, those that nothing keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

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
        named = {(each.namespace, each.name) for each in about_to_leave(self._ground.book)}
        for name in sorted(self._ground.leavers.terminating | named):
            for claim in self._ground.book.claims_of(name):
                if claim.quota.rpartition("/")[0] == tree and (found := self.charged_pod(claim)) is not None:
                    yield found

    def used(self, tree: str, leaving: Iterable[Charged]) -> dict[str, dict[str, int]]:
        """What each group of a tree uses in its whole subtree, without those that are leaving. What pods are nominated
        to nobody uses yet."""
        used: dict[str, dict[str, int]] = {}
        for name in self._ground.charged.groups(tree):
            self._count(used, (tree, name), self._ground.charged.amounts(tree, name), 1)
        for each in leaving:
            self._count(used, (tree, each.quota), each.amounts, -1)
        return used

    def _count(self, used: dict[str, dict[str, int]], key: Key, amounts: Mapping[str, int], sign: int) -> None:
        group = self._ground.capacity.quotas.groups.get(key)
        for name in (key[1], *(group.ancestors if group is not None else ())):
            into = used.setdefault(name, {})
            for resource, amount in amounts.items():
                into[resource] = into.get(resource, 0) + sign * amount

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
