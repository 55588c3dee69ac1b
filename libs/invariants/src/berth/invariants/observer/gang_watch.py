"""Gangs at every moment: a strict one begins whole, and is whole, or not there, again within the recovery limit.

The limit counts from the last fault: time in which something is known to go wrong is not counted.

What nothing can forbid is excused, until the gang is whole again: members that are deleted, or withdrawn for a reason
(`withdrawals.py`), after the plan was committed, or deleted before it but unseen by everybody; a loss of the ledger
that takes the gang's plan along while it is being bound; and a PodGroup that comes to ask for more, which it may at any
moment. Gangs that start together are excused together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from berth.contracts.ledger import Decision
from berth.invariants.counts import Excuse
from berth.invariants.observer.calm import NEVER, Calm
from berth.invariants.observer.decided import Decided
from berth.invariants.observer.departures import Departures
from berth.invariants.observer.pods import Watched
from berth.invariants.observer.verdicts import Verdicts
from berth.rules.gang_config import GangConfig, gang_of_pod_group
from berth.transaction.ledger_view import LedgerView

LAPSED_MAX = 10_000


class GangWatch:
    """Members by gang, and since when (by `calm`) a gang is half there. `limit_s` is the recovery limit."""

    def __init__(
        self, verdicts: Verdicts, calm: Calm, departures: Departures, decided: Decided, *, limit_s: float, lag_s: float
    ) -> None:
        self.departures = departures
        self.excused: set[str] = set()
        self.caught: set[str] = set()
        """Those of them that a loss of the ledger caught in mid-bind: nothing else says why they are half there."""
        self._why: dict[str, Excuse] = {}
        """Why each of them is."""
        self._pardoned: set[tuple[str, ...]] = set()
        """Those that are half there, and would be judged if they were not excused."""
        self.due_s = NEVER
        """When the next gang that is half there will have been so for too long."""
        self._verdicts = verdicts
        self._calm = calm
        self._decided = decided
        self._limit_s = limit_s
        self._lag_s = lag_s
        self._members: dict[str, dict[str, Watched]] = {}
        self._groups: dict[str, GangConfig] = {}
        self._together: dict[str, tuple[str, ...]] = {}
        """By gang: those that it starts with. What was said last counts while nobody says it (its PodGroup is gone)."""
        self._half: dict[tuple[str, ...], tuple[float, float]] = {}
        """By `calm`, and by everybody's clock."""
        self._lapsed: dict[tuple[str, tuple[str, ...]], float] = {}
        """When a member of this plan was last deleted, ended or withdrawn, by plan and gang group; NEVER over where the
        plan may have begun by then, since its other binds may be on their way for however long."""

    def trouble(self, for_s: float) -> None:
        """From now on for so long, things go wrong from outside."""
        self._calm.trouble(for_s)
        self._schedule()

    def see_group(self, data: Mapping[str, Any], deleted: bool) -> None:
        """A PodGroup was written or deleted."""
        meta = data["metadata"]
        namespace, name = meta["namespace"], meta["name"]
        gang = f"{namespace}/{name}"
        if deleted:
            self._groups.pop(gang, None)
            self._judge(gang)
            if gang not in self._members:
                self._together.pop(gang, None)
            return
        spec = data.get("spec") or {}
        minimum, timeout_s = spec.get("minMember"), spec.get("scheduleTimeoutSeconds")
        said = self._groups.get(gang)
        config = self._groups[gang] = gang_of_pod_group(
            namespace,
            name,
            min_member=minimum if isinstance(minimum, int) else 0,
            schedule_timeout_s=timeout_s if isinstance(timeout_s, int) else None,
            annotations=meta.get("annotations") or {},
        )
        if said is not None and (config.min_member or 0) > (said.min_member or 0):
            self._excuse(gang, Excuse.MORE_ASKED)
        self._judge(gang)

    def group_of(self, gang: str) -> GangConfig | None:
        """What the PodGroup of a gang says, if there is one."""
        return self._groups.get(gang)

    def see(self, pod: Watched) -> None:
        """A member as it is now."""
        self._members.setdefault(pod.gang, {})[pod.uid] = pod
        self._judge(pod.gang)

    def gone(self, pod: Watched) -> None:
        """A member was deleted."""
        members = self._members.get(pod.gang, {})
        members.pop(pod.uid, None)
        self.departures.gone(pod)
        if pod.node or self._is_on_nodes(pod.gang):
            self._excuse(pod.gang, Excuse.MEMBER_GONE)
        if not members:
            self._members.pop(pod.gang, None)
        if not members and pod.gang not in self._groups:  # with its PodGroup it has begun, whoever comes later
            self.excused.discard(pod.gang)
            self._why.pop(pod.gang, None)
            self.caught.discard(pod.gang)
        self._judge(pod.gang)
        if not members and pod.gang not in self._groups:
            self._together.pop(pod.gang, None)

    def lapsed(self, pod: Watched, plans: Iterable[str], why: Excuse = Excuse.MEMBER_GONE) -> None:
        """A decided member was deleted, ended or withdrawn: plans that name it may not know yet."""
        for plan in plans:
            has_begun = self._decided.may_have_begun(plan)
            self._lapsed[self._key(pod, plan)] = NEVER if has_begun else self._verdicts.now_s
        if self._is_on_nodes(pod.gang):
            self._excuse(pod.gang, why)
        if len(self._lapsed) > LAPSED_MAX:
            self._lapsed = {
                (plan, group): at_s
                for (plan, group), at_s in self._lapsed.items()
                if (self._decided.may_have_begun(plan) if at_s == NEVER else not self._is_old(at_s))
            }

    def withdrawn(self, pod: Watched, plans: Iterable[str], reason: Excuse | None) -> None:
        """A member was withdrawn. `reason`: one to do so, beside that its gang cannot begin without another."""
        plans = list(plans)
        if reason is None and any(not self._is_old(self._lapsed.get(self._key(pod, plan), -NEVER)) for plan in plans):
            reason = Excuse.WITH_ANOTHER
        if reason is not None:
            self.lapsed(pod, plans, reason)

    def excuse_started(self, gangs: Iterable[str]) -> None:
        """The ledger lost something while these were being bound."""
        for gang in gangs:
            self._excuse(gang, Excuse.CAUGHT)
            self.caught.update(self.excused.intersection(self._group(gang)))

    def half_there(self) -> list[str]:
        """Gangs of which some members are on nodes, and too few."""
        return [gang for group in self._half for gang in group]

    def begins(self, pod: Watched, decision: Decision, ledger: LedgerView) -> None:
        """The first member of a strict gang is bound under its plan: all of them must have been decided by it."""
        gang = decision.gang
        if gang is None or not gang.strict or self._has_begun(pod, decision.plan):
            return
        members = [ledger.decisions[name].decision for name in ledger.members.get(decision.plan, ())]
        members = [each for each in members if each.gang is not None and each.gang.name == gang.name]
        ready = sum(1 for each in members if self._is_here(each))
        if ready < gang.size and any(each in self.excused for each in gang.name.split(",")):
            return  # that excuse was counted when it came up
        if ready < gang.size and not self._is_old(self._lapsed.get(self._key(pod, decision.plan), -NEVER)):
            self._verdicts.excused("I3", Excuse.MEMBER_GONE)
            self._excuse(pod.gang, Excuse.MEMBER_GONE)
            return
        unknown = sum(1 for each in members if self.departures.is_unknown(each.uid)) if ready < gang.size else 0
        if ready < gang.size <= ready + unknown:
            self._verdicts.excused("I3", Excuse.MEMBER_UNSHOWN)
            self._excuse(pod.gang, Excuse.MEMBER_UNSHOWN)
            return
        self._verdicts.judged("I3")
        if ready >= gang.size:
            return
        text = f"gang {gang.name}: {pod.text} is bound under plan {decision.plan}, {ready} of {gang.size} are decided"
        self._verdicts.add("I3", f"gang {gang.name}, plan {decision.plan}", text)

    def check_due(self) -> None:
        """Time has gone on: say what is half there for too long."""
        now_s = self._calm.now_s
        for group, (since_s, _) in list(self._half.items()):
            if now_s - since_s > self._limit_s:
                bound = {each: self._bound(each) for each in group}
                listed = ", ".join(f"{gang}: {count} of {self._minimum(gang)}" for gang, count in bound.items())
                text = f"half there for {now_s - since_s:.1f} s without a fault: {listed} bound"
                self._verdicts.judged("I3")
                self._verdicts.add("I3", f"gang {group[0]}", f"gang {text}")
                del self._half[group]
        self._schedule()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _key(self, pod: Watched, plan: str) -> tuple[str, tuple[str, ...]]:
        return plan, self._group(pod.gang)

    def _group(self, gang: str) -> tuple[str, ...]:
        config = self._config(gang)
        if config is not None:
            self._together[gang] = config.group or (gang,)
        return self._together.get(gang, (gang,))

    def _is_on_nodes(self, gang: str) -> bool:
        return any(self._bound(each) for each in self._group(gang))

    def _is_here(self, decision: Decision) -> bool:
        gang = decision.gang.name.split(",") if decision.gang else []
        for each in gang:
            pod = self._members.get(each, {}).get(decision.uid)
            if pod is not None:
                return pod.is_live and pod.attempt == decision.attempt
        return False

    def _has_begun(self, pod: Watched, plan: str) -> bool:
        return any(
            each.node and each.plan == plan and each.uid != pod.uid
            for gang in self._group(pod.gang)
            for each in self._members.get(gang, {}).values()
        )

    def _is_old(self, at_s: float) -> bool:
        return at_s < self._verdicts.now_s - self._lag_s

    def _config(self, gang: str) -> GangConfig | None:
        found = self._groups.get(gang)
        if found is not None:
            return found
        members = sorted(self._members.get(gang, {}).values(), key=lambda each: each.name)
        configs = (each.gang_config for each in members)
        return next((each for each in configs if each is not None and each.min_member is not None), None)

    def _minimum(self, gang: str) -> int:
        config = self._config(gang)
        return (config.min_member if config else 0) or 0

    def _bound(self, gang: str) -> int:
        return sum(1 for each in self._members.get(gang, {}).values() if each.node)

    def _judge(self, gang: str) -> None:
        group = self._group(gang)
        for other in [each for each in self._half if gang in each and each != group]:
            del self._half[other]  # its group is another one by now
        configs = [self._config(each) for each in group]
        bound = [self._bound(each) for each in group]
        is_strict = any(each is not None and each.mode == "Strict" for each in configs)
        is_whole = all(count >= self._minimum(each) for each, count in zip(group, bound, strict=True))
        if is_whole and None not in configs:  # of a gang without its PodGroup nobody knows how many it needs
            self.excused.difference_update(group)
            self.caught.difference_update(group)
        is_half = is_strict and any(bound) and not is_whole
        excused = [each for each in group if each in self.excused]
        if not is_half or not excused:
            self._pardoned.discard(group)
        elif group not in self._pardoned:
            self._pardoned.add(group)
            self._verdicts.excused("I3", self._why[excused[0]])
        is_half = is_half and not excused
        if is_half and group not in self._half:
            self._half[group] = self._calm.now_s, self._verdicts.now_s
            self._schedule()
        elif not is_half and group in self._half:
            _, since_s = self._half.pop(group)
            if self._verdicts.now_s - since_s > self._limit_s:
                self._verdicts.excused("I3", Excuse.RECOVERY)
            elif self.excused.isdisjoint(group):
                self._verdicts.judged("I3")
            self._schedule()

    def _excuse(self, gang: str, why: Excuse) -> None:
        for each in self._group(gang):
            if each in self._members and each not in self.excused:
                self.excused.add(each)
                self._why[each] = why
        self._judge(gang)

    def _schedule(self) -> None:
        self.due_s = (
            min((since_s for since_s, _ in self._half.values()), default=NEVER) + self._limit_s + self._calm.troubled_s
        )
