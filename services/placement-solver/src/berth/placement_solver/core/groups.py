"""Gangs and gang groups: who belongs together, how many are needed, and whether a group may be tried now.

The settings come from a PodGroup or, without one, from the first member by name that says something usable: a function
of what STATE shows now, so that solvers agree on who decides a gang. A group is tried
when every gang of it is known and has enough members; then all of it is placed in one plan or none of it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem, Reason
from berth.contracts.state import Pod, PodGroup
from berth.rules.gang_config import GangConfig, gang_of_pod, gang_of_pod_group
from berth.rules.gang_member import Member, gang_id_of, gang_of_member
from berth.rules.gang_permit import GangMembers, members_lacking
from berth.rules.preemption import REASONS
from berth.rules.queue_admission import GangState, admission, goes_alone, group_lacks
from berth.transaction.claims import Name

GROUPS_FIELD: Final = f"metadata.annotations[{names.ANNOTATION_GANG_GROUPS}]"


@dataclass(eq=False)
class Gang:
    """A gang: its settings, its members that have not ended, which of them are placed (decided or bound) and bound.

    From the first bound member on it `has_begun`, and the group counts as satisfied. That ends only when Berth has made
    all of it leave: members that leave for others are bound no longer, and with the last of them it begins anew.
    """

    id: str
    config: GangConfig | None = None
    children: set[Name] = field(default_factory=set)
    by_name: list[Name] = field(default_factory=list)
    """The same, sorted: with each message about one of them it is asked which waits."""
    placed: set[Name] = field(default_factory=set)
    nominated: set[Name] = field(default_factory=set)
    """Members that wait for others to leave, and may not be placed before."""
    bound: set[Name] = field(default_factory=set)
    leaving: set[Name] = field(default_factory=set)
    """Members that leave for others: neither placed nor bound any more, and still there."""
    has_begun: bool = False
    displaced: str = ""
    """The plan for which all of it was made to leave last, as its PodGroup says."""
    is_ending: bool = False
    """That plan was seen, and members that were bound then may still be."""
    by_group_object: bool = False
    by_member: dict[Name, GangConfig] = field(default_factory=dict)
    """What members say that is usable."""


class Readiness(NamedTuple):
    """Whether a group may be tried, and if not, why; `satisfied`: it began before, so members go one by one."""

    ready: bool
    satisfied: bool = False
    reason: Reason | None = None


class Gangs:
    """All gangs known, by `namespace/name`."""

    def __init__(self) -> None:
        self.gangs: dict[str, Gang] = {}
        self._of_member: dict[Name, str] = {}

    def reset(self) -> None:
        """STATE starts over."""
        self.gangs.clear()
        self._of_member.clear()

    def see_group(self, namespace: str, name: str, group: PodGroup | None) -> str:
        """Take in a PodGroup, or with None its deletion; the id of its gang."""
        gang_id = f"{namespace}/{name}"
        gang = self.gangs.setdefault(gang_id, Gang(gang_id))
        gang.by_group_object = group is not None
        if group is not None:
            displaced = group.annotations.get(names.ANNOTATION_DISPLACED, "")
            if displaced != gang.displaced:
                gang.displaced, gang.is_ending = displaced, bool(displaced)
                _end(gang)
            gang.config = gang_of_pod_group(
                namespace,
                name,
                min_member=group.min_member,
                schedule_timeout_s=group.schedule_timeout_s,
                annotations=group.annotations,
                found=group.problems,
            )
        elif gang.children:
            _settle(gang)
        else:
            self._drop(gang)
        return gang_id

    def see(self, name: Name, obj: Member | None, *, decided: bool, nominated: bool = False) -> str:
        """Take in a pod, or a Reservation (None: it is gone, or not ours); the id of its gang, empty without one.

        `decided`: a decision holds for it. A group has begun when a member is bound, not when one is decided.
        `nominated`: others have still to leave for it (E1). A Reservation is bound while it is on its node.
        """
        gang_id = self._of_member.get(name, "")
        wanted_id = gang_id_of(obj) if obj is not None else ""
        if wanted_id != gang_id or obj is None:
            self._leave(name, gang_id)
        if obj is None:
            return gang_id
        if not wanted_id:
            return ""
        self._of_member[name] = wanted_id
        gang = self.gangs.setdefault(wanted_id, Gang(wanted_id))
        if name not in gang.children:
            gang.children.add(name)
            insort(gang.by_name, name)
        config = gang_of_member(obj)
        if config is not None and (config.source == "annotations" or config.min_member is not None):
            gang.by_member[name] = config
        else:
            gang.by_member.pop(name, None)
        _settle(gang)
        leaves = isinstance(obj, Pod) and bool(obj.node) and obj.deleting and obj.disruption in REASONS
        _put(gang.leaving, name, leaves)
        _put(gang.bound, name, bool(obj.node) and not leaves)
        if leaves and not gang.bound:
            gang.has_begun = False
        _put(gang.nominated, name, nominated and not obj.node)
        _put(gang.placed, name, (bool(obj.node) or decided) and not leaves)
        return wanted_id

    def gang_of(self, name: Name) -> Gang | None:
        """The gang of a pod or Reservation that was seen."""
        return self.gangs.get(self._of_member.get(name, ""))

    def is_in_strict(self, pod: Pod) -> bool:
        """Whether a pod belongs to a strict gang, Berth's or another scheduler's.

        Members that another scheduler places are in no gang here: a PodGroup speaks for them as well, and without one
        what they say themselves. A gang of which nothing is known counts as strict.
        """
        own = gang_of_pod(pod.namespace, pod.template.labels, pod.template.annotations)
        if own is None:
            return False
        gang = self.gangs.get(own.id)
        if gang is None or not (gang.by_group_object or (pod.namespace, pod.name) in gang.children):
            return own.mode == "Strict"
        return gang.config is None or gang.config.mode == "Strict"

    def strict_gang_of(self, pod: Pod) -> Gang | None:
        """The strict gang of Berth's that a pod is a member of."""
        gang = self.gang_of((pod.namespace, pod.name))
        return gang if gang is not None and self.is_in_strict(pod) else None

    def goes_alone(self, name: Name) -> bool:
        """Whether a pod is placed by itself: it is in no gang, or its group has begun and lets each stand for
        itself."""
        gang = self.gang_of(name)
        return gang is None or self.readiness(self.group_of(gang.id)).satisfied

    def group_of(self, gang_id: str) -> str:
        """The id of the group that a gang is in; its own id when it is alone, unknown, or missing from its own list."""
        gang = self.gangs.get(gang_id)
        return gang.config.group_id if gang and gang.config and gang_id in gang.config.group else gang_id

    def members_of_group(self, group_id: str) -> list[Gang]:
        """The gangs of a group that are known, sorted by id."""
        return [self.gangs[gang_id] for gang_id in group_id.split(",") if gang_id in self.gangs]

    def readiness(self, group_id: str) -> Readiness:
        """May this group be tried now?"""
        ids = group_id.split(",")
        states = {gang_id: _state_of(self.gangs[gang_id]) for gang_id in ids if gang_id in self.gangs}
        lack = group_lacks(ids, states)
        if lack is not None and lack.why != "few":
            return self._unknown(lack.gang)
        gangs = self.members_of_group(group_id)
        if any(gang.bound or gang.has_begun for gang in gangs):
            for gang in gangs:
                gang.has_begun = True
            if all(goes_alone(_state_of(gang)) for gang in gangs):
                return Readiness(True, satisfied=True)
        elif any(gang.nominated for gang in gangs):
            return _no(f"gang {group_id} waits for pods to leave", "wait for the pods that are evicted for it")
        elif any(gang.placed for gang in gangs):
            return _no(f"gang {group_id} is about to begin", "wait for the bind of its first members")
        # The queue has one entry of each group, and a round tries all of it at once: no pod is before another one.
        if lack is not None and admission("", lack.gang, states) != "pass":
            gang = self.gangs[lack.gang]
            minimum = (gang.config.min_member if gang.config else 0) or 0
            there = _staying(gang)
            missing = minimum - there
            return _no(
                f"gang {gang.id} has {there} of {minimum} members",
                f"create {missing} more members of {gang.id}",
            )
        return Readiness(True)

    def lies_anew(self, group_id: str) -> bool:
        """Whether a group that asks for a place in the network has nobody on a node: then those who wait choose their
        domain together, though each of them may be placed by itself."""
        gangs = self.members_of_group(group_id)
        return any(gang.config is not None and gang.config.network is not None for gang in gangs) and not any(
            gang.placed for gang in gangs
        )

    def _unknown(self, gang_id: str) -> Readiness:
        """Why a group waits of which a gang is not known, or what it needs is not."""
        gang = self.gangs.get(gang_id)
        if gang is None:
            return _no(
                f"{GROUPS_FIELD}: gang {gang_id} of the group is not there", f"create gang {gang_id}", GROUPS_FIELD
            )
        if gang.config is None:
            return _no(f"gang {gang_id} has no PodGroup yet", f"create PodGroup {gang_id}")
        problem = _first(gang.config.problems)
        return _no(f"gang {gang_id}: {problem.field}: {problem.message}", f"correct {problem.field}")

    def problems(self, gang_id: str) -> list[Problem]:
        """What is wrong with the settings of a gang: what it says itself, and gangs of its group that are not there, or
        do not name the same group."""
        gang = self.gangs.get(gang_id)
        if gang is None or gang.config is None:
            return []
        found = list(gang.config.problems)
        for other_id in gang.config.group:
            other = self.gangs.get(other_id)
            if other is None:
                found.append(Problem(field=GROUPS_FIELD, message=f"gang {other_id} of the group is not there"))
            elif other.config is not None and other.config.group != gang.config.group:
                named = ", ".join(other.config.group)
                found.append(Problem(field=GROUPS_FIELD, message=f"gang {other_id} names another group: {named}"))
        return found

    def needed(self, gang: Gang) -> int:
        """How many more members have to be placed together for the gang to begin."""
        config = gang.config
        if config is None:
            return 0
        members = GangMembers(
            config.min_member,
            waiting=len(gang.placed - gang.bound),
            bound=len(gang.bound),
            match_policy=config.match_policy,
        )
        return members_lacking(members, once_satisfied=gang.has_begun) or 0

    def still_needs(self, group_id: str, needed: Mapping[str, int]) -> bool:
        """Whether the group would be tried as it was when so many of each gang were needed."""
        readiness = self.readiness(group_id)
        as_it_is = {gang.id: self.needed(gang) for gang in self.members_of_group(group_id)}
        together = not readiness.satisfied or self.lies_anew(group_id)
        return readiness.ready and together and as_it_is == needed

    def _leave(self, name: Name, gang_id: str) -> None:
        gang = self.gangs.get(gang_id)
        self._of_member.pop(name, None)
        if gang is None:
            return
        if name in gang.children:
            gang.children.discard(name)
            del gang.by_name[bisect_left(gang.by_name, name)]
        gang.placed.discard(name)
        gang.nominated.discard(name)
        gang.bound.discard(name)
        gang.leaving.discard(name)
        gang.by_member.pop(name, None)
        _end(gang)
        _settle(gang)
        if not gang.children and not gang.by_group_object:
            self._drop(gang)

    def _drop(self, gang: Gang) -> None:
        self.gangs.pop(gang.id, None)


def pods_of(gangs: Iterable[Gang], waiting: Mapping[Name, object]) -> list[Name]:
    """The members that wait for a node, gang by gang, each gang by name."""
    return [name for gang in gangs for name in gang.by_name if name in waiting and name not in gang.placed]


def _state_of(gang: Gang) -> GangState:
    config = gang.config
    if config is None:
        return GangState(None, len(gang.children), (gang.id,))
    return GangState(config.min_member, _staying(gang), config.group, config.match_policy, gang.has_begun)


def _staying(gang: Gang) -> int:
    """How many members are not leaving for others."""
    return len(gang.children) - len(gang.leaving)


def _no(message: str, repair: str, at: str = "") -> Readiness:
    return Readiness(False, reason=Reason(code="gang", message=message, repair=repair, field=at))


def _first(problems: tuple[Problem, ...]) -> Problem:
    return problems[0] if problems else Problem(field="metadata.annotations", message="no usable minimum of members")


def _put(names_: set[Name], name: Name, is_in: bool) -> None:
    if is_in:
        names_.add(name)
    else:
        names_.discard(name)


def _end(gang: Gang) -> None:
    """A gang that was made to leave whole begins anew once nobody of it is bound."""
    if gang.is_ending and not gang.bound:
        gang.has_begun = gang.is_ending = False


def _settle(gang: Gang) -> None:
    """Without a PodGroup, the settings of the first member by name; of those, one with a usable minimum if there is."""
    if not gang.by_group_object:
        ranked = min(gang.by_member, key=lambda name: (gang.by_member[name].min_member is None, name), default=None)
        gang.config = gang.by_member[ranked] if ranked is not None else None
