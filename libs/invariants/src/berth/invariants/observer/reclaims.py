"""Who may be made to leave for the sake of quota (I35), judged when the plan is committed.

Across groups only from one that uses more than its runtime, for pods that stay within the min of theirs, each by
what QUOTA says at the revisions that the plan has stamped; inside a group only who is of lower priority. By the timer
only from the group itself, while it is over its runtime. What a solver may not have heard of counts for it: of use the
most that it may still see of a group that gives, and the least that it must know of a group that takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from berth.contracts import subjects
from berth.contracts.ledger import AccountStamp, Decision
from berth.invariants.counts import Excuse
from berth.invariants.observer.capacity import Capacity
from berth.invariants.observer.holds import Hold
from berth.invariants.observer.shares import Said, Shares
from berth.invariants.observer.sight import Reader
from berth.invariants.observer.verdicts import Verdicts
from berth.rules.gang_config import gang_name_of_pod
from berth.rules.preemption import BY_QUOTA
from berth.transaction.revocations import group_of

LAW: Final = "I35"
Json: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[str, str]
"""Tree and name."""
Stamps: TypeAlias = Mapping[str, AccountStamp]


class Reclaims:
    """`pods` are the objects as they are, by name."""

    def __init__(
        self, verdicts: Verdicts, capacity: Capacity, shares: Shares, pods: Mapping[tuple[str, str], Json]
    ) -> None:
        self._verdicts = verdicts
        self._capacity = capacity
        self._shares = shares
        self._pods = pods
        self._batch: list[Decision] = []

    def nominated(self, decision: Decision) -> None:
        """A nomination of a batch of which the end is still to come."""
        if decision.eviction_reason == BY_QUOTA and decision.victims:
            self._batch.append(decision)

    def lost(self) -> None:
        """LEDGER has lost something: the rest of a batch does not come."""
        self._batch.clear()

    def planned(self, plan: str, stamps: Stamps) -> None:
        """The last message of a batch: all its nominations are there, and so are the stamps."""
        members = [each for each in self._batch if each.plan == plan]
        self._batch.clear()
        if not members:
            return
        taking: dict[Key, list[Decision]] = {}
        for each in members:
            taking.setdefault(self._taker(each), []).append(each)
        own = self._taker(members[0])
        victims: dict[Key, list[Hold]] = {}
        for victim in members[0].victims:
            hold = self._capacity.holds.get(victim.uid)
            if hold is not None and hold.is_bound and hold.quota:
                victims.setdefault((own[0], hold.quota), []).append(hold)
        is_revocation = group_of((members[0].namespace, members[0].name)) is not None
        for key, holds in victims.items():
            self._verdicts.judged(LAW)
            if key in taking and not is_revocation:
                self._judge_priorities(members, holds)
            elif is_revocation and key != own:
                text = f"quota {own[1]} gives back, and {holds[0].text} of quota {key[1]} leaves"
                self._verdicts.add(LAW, f"plan {plan}, {key[1]}", text)
            else:
                self._judge_lent(key, holds, stamps, plan)
        if not is_revocation and victims.keys() - taking.keys():
            for key, paid_for in taking.items():
                self._judge_promise(key, paid_for, stamps, plan)

    @staticmethod
    def _taker(decision: Decision) -> Key:
        group = group_of((decision.namespace, decision.name))
        if group is not None:
            return group
        tree, _, name = decision.quota.rpartition("/")
        return tree, name

    def _judge_priorities(self, members: Sequence[Decision], holds: Sequence[Hold]) -> None:
        waiting = [pod for each in members if (pod := self._pods.get((each.namespace, each.name))) is not None]
        lowest = min((_priority(pod) for pod in waiting), default=None)
        chosen = {hold.uid for hold in holds}
        for pod in self._pods.values():
            if pod["metadata"]["uid"] in chosen and lowest is not None and _priority(pod) >= lowest:
                who = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
                text = f"leaves at priority {_priority(pod)} for one of its own group of priority {lowest}"
                self._verdicts.add(LAW, f"plan {members[0].plan}, {who}", f"{who}: {text}")

    def _judge_lent(self, key: Key, holds: Sequence[Hold], stamps: Stamps, plan: str) -> None:
        """The group is over its runtime when the last of them begin to leave; members of a gang may leave together."""
        said = self._said(key, stamps, plan)
        if said is None:
            return
        units = self._units(holds)
        used_of: dict[str, int] = {}
        for resource in said.group.limits:
            amounts = [sum(hold.charged.get(resource, 0) for hold in unit) for unit in units]
            used = sum(amount for _, amount in self._holders(key, resource, stamps)()) + self._just_left(key, resource)
            used_of[resource] = used
            if max(amounts) > 0 and used - sum(amounts) + max(amounts) > said.group.runtime.get(resource, 0):
                return
        names = ", ".join(hold.text for hold in holds)
        text = f"{names} leave quota {key[1]}, which uses {used_of} of its runtime {said.group.runtime}"
        self._verdicts.add(LAW, f"plan {plan}, {key[1]}", text)

    def _judge_promise(self, key: Key, members: Sequence[Decision], stamps: Stamps, plan: str) -> None:
        said = self._said(key, stamps, plan)
        if said is None:
            return
        for resource in said.group.limits:
            asked = sum(each.allocation.amounts.get(resource, 0) for each in members)
            most = said.group.effective_min.get(resource, 0) - asked
            holders = self._holders(key, resource, stamps)
            if asked > 0 and sum(amount for _, amount in holders()) > most:
                subject = f"quota {key[1]}, for which others leave by plan {plan}, beside {asked}"
                self._capacity.beyond(LAW, subject, resource, most, holders, Reader.SOLVER)

    def _said(self, key: Key, stamps: Stamps, plan: str) -> Said | None:
        """What QUOTA said of a group at the revision that the plan has stamped on it."""
        if not self._shares.knows(key):
            return None
        stamp = stamps.get(subjects.quota_account(*key))
        if stamp is None or stamp.plan != plan:
            known = self._capacity.groups.get(key[1])
            if known is None or not self._capacity.sight.has_seen(Reader.QUOTA, known.since_s):
                self._verdicts.excused(LAW, Excuse.UNSEEN)
            else:
                self._verdicts.add(LAW, f"plan {plan}, {key[1]}", f"plan {plan} does not stamp quota {key[1]}")
            return None
        said = self._shares.said(key, stamps)
        if said is not None and self._shares.may_be_unread(said):
            self._verdicts.excused(LAW, Excuse.UNSEEN)
            return None
        return said

    def _holders(self, key: Key, resource: str, stamps: Stamps) -> Callable[[], Iterator[tuple[Hold, int]]]:
        return self._shares.holders(key, resource, stamps[subjects.quota_account(*key)].revision)

    def _just_left(self, key: Key, resource: str) -> int:
        """What those held who have left a moment ago, for whom a solver may not know that."""
        return sum(
            hold.charged.get(resource, 0)
            for left in self._capacity.left.values()
            for since_s, hold in left
            if key[1] in hold.groups and not self._capacity.sight.has_seen(Reader.SOLVER, since_s)
        )

    def _units(self, holds: Sequence[Hold]) -> list[list[Hold]]:
        """Those of one gang may leave together."""
        gangs: dict[str, str] = {}
        for (namespace, _), pod in self._pods.items():
            meta = pod["metadata"]
            name = gang_name_of_pod(meta.get("labels") or {}, meta.get("annotations") or {})
            if name:
                gangs[meta["uid"]] = f"{namespace}/{name}"
        units: dict[str, list[Hold]] = {}
        for hold in holds:
            units.setdefault(gangs.get(hold.uid, hold.uid), []).append(hold)
        return list(units.values())


def _priority(pod: Json) -> int:
    return int((pod.get("spec") or {}).get("priority") or 0)
