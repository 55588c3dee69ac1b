"""Groups that stay above their runtime give back, whether somebody waits or not (Koordinator's `monitorAllQuotas`).

Which group has been over for too long QUOTA says, by the time of quota-manager; who leaves is worked out on what is in
use here. A group gives back once at a time: nobody else is named while somebody of it is on the way out by this rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from berth.contracts.ledger import Decision
from berth.contracts.quota import QuotaGroup
from berth.contracts.state import Pod
from berth.placement_solver.core.displacers.giving import Giving
from berth.placement_solver.core.displacers.giving_units import GivingUnits
from berth.placement_solver.core.displacers.lenders import Key
from berth.placement_solver.core.displacers.one_node import about_to_leave
from berth.placement_solver.core.displacers.seam import Asking, Ground
from berth.rules.preemption import Budgets
from berth.rules.quota_of_pod import ROOT_GROUP, SYSTEM_GROUP
from berth.rules.quota_reclaim import over, to_revoke
from berth.rules.scheduler_config import ElasticQuotaArgs, Profile
from berth.transaction.revocations import group_of, name_of_group

PLUGIN: Final = "ElasticQuota"
SPARED: Final = frozenset({ROOT_GROUP, SYSTEM_GROUP})
"""Groups that never give back."""
STANDS_S: Final = 180.0
"""How long a revocation stands at most whose victims do not begin to leave."""


class Times(NamedTuple):
    """After how many seconds over its runtime a group gives back, and how often that is looked for."""

    delay_s: float
    every_s: float


def times_of(profiles: Iterable[Profile]) -> Times | None:
    """The shortest that a profile asks for; None where none monitors quotas."""
    found = [args for each in profiles if (args := each.args_of(PLUGIN, ElasticQuotaArgs)).monitor_all_quotas]
    if not found:
        return None
    return Times(min(each.delay_evict_s for each in found), min(each.revoke_interval_s for each in found))


def has_been_over(group: QuotaGroup, now_ms: int, delay_s: float) -> bool:
    """Whether it uses more than its runtime, and has for so long."""
    since = group.over_since_ms
    return since > 0 and group.name not in SPARED and now_ms - since > delay_s * 1_000


class Revocations:
    """Who of which group would leave, on the live view."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._giving = Giving(ground, lambda pod: False)

    @property
    def any_stand(self) -> bool:
        """Whether a revocation stands."""
        return any(group_of(each.name) is not None for each in self._ground.book.nominations)

    def is_at_it(self, key: Key) -> bool:
        """Whether a revocation of the group stands, or somebody who was named by one still carries its mark."""
        name = name_of_group(*key)
        book = self._ground.book
        if book.open_decision(name) is not None:
            return True
        return any(
            (pod := book.pods.get(victim)) is not None and not pod.deleting
            for victim, _ in book.marks.leaving_for(name[1])
        )

    def victims(self, key: Key, plan: str, now_s: float) -> tuple[Pod, ...]:
        """Who leaves, in the order in which they are evicted; nobody, if the group uses no more than its runtime once
        those have left who are leaving already, or none of its pods may leave."""
        group = self._ground.capacity.quotas.groups.get(key)
        if group is None:
            return ()
        left = self._used(key)
        if not over(left, group.runtime):
            return ()
        leaving = frozenset(each.pod.uid for each in self._giving.leaving(key[0]))
        budgets = Budgets(self._ground.budgets(), about_to_leave(self._ground.book))
        units = GivingUnits(self._ground, key[0], Asking(plan, now_s=now_s), leaving, budgets).all_of(key)
        victims: dict[str, Pod] = {}
        for unit in to_revoke(group.runtime, left, [each.charged for each in units]):
            victims.update((each.pod.uid, each.pod) for each in unit)
        return tuple(victims.values())

    def groups_of(self, victims: Iterable[Pod]) -> tuple[Key, ...]:
        """The groups that pay for these."""
        return self._giving.groups_of(victims)

    def to_take_back(self, now_ms: int) -> Iterator[Decision]:
        """Revocations that stand and are no longer of use: their group is within its runtime without them, or is gone;
        or their victims cannot be made to leave."""
        for nomination in self._ground.book.nominations:
            decision, key = nomination.decision, group_of(nomination.name)
            if decision is None or key is None:
                continue
            group = self._ground.capacity.quotas.groups.get(key)
            staying = {each.uid for each in self._ground.book.staying_victims(nomination)}
            is_over = group is not None and bool(over(self._used(key, staying), group.runtime))
            if not is_over or now_ms - decision.decided_ms > STANDS_S * 1_000:
                yield decision

    def _used(self, key: Key, staying: Iterable[str] = ()) -> dict[str, int]:
        """What a group uses without those that are leaving; of them, those count that `staying` names."""
        kept = set(staying)
        leaving = [each for each in self._giving.leaving(key[0]) if each.pod.uid not in kept]
        return self._giving.used(key[0], leaving).get(key[1], {})
