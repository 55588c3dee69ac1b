"""Gangs that may be half there: they lost a member after they had begun, or were so when we began to look.

A gang that lacks members altogether has lost them: it cannot begin before all of them are there. Why a member was
withdrawn cannot be distinguished by looks that are seconds apart: its node may have come back, an epoch may have been
raised between them. So each withdrawal excuses its gang, and those that start together with it, but only the one that
was seen to happen, and until all of them are whole, or not there at all, again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from berth.contracts import kube, names
from berth.invariants.gangs import config_of
from berth.invariants.members import Said, is_ours, said_by, stands_for_a_member
from berth.rules.gang_config import GangConfig


@dataclass(slots=True)
class _Gang:
    """A gang at one look: its settings, where they can be read, its members, and the uids of those that are bound."""

    config: GangConfig | None = None
    members: int = 0
    bound: set[str] = field(default_factory=set)

    @property
    def minimum(self) -> int:
        """How many members it needs; 0 while nobody knows."""
        return (self.config.min_member if self.config else None) or 0

    @property
    def is_whole(self) -> bool:
        """All the members that it needs are bound."""
        return len(self.bound) >= self.minimum > 0


class _Member(NamedTuple):
    said: Said
    uid: str
    node: str


def _members(
    pods: Iterable[kube.Pod], reservations: Iterable[kube.Reservation], schedulers: frozenset[str]
) -> Iterator[_Member]:
    """The pods and Reservations of Berth's that are in gangs."""
    for each in reservations:
        said = said_by(each)
        if said.gang and is_ours(each, schedulers) and stands_for_a_member(each):
            yield _Member(said, each.metadata.uid, each.status.node_name)
    for pod in pods:
        meta = pod.metadata
        said = Said(meta.namespace, meta.labels or {}, meta.annotations or {})
        if said.gang and pod.spec.scheduler_name in schedulers:
            yield _Member(said, meta.uid, pod.spec.node_name)


class GangMemory:
    """Bound members of each gang, and how often each that waits was withdrawn, from look to look."""

    def __init__(self) -> None:
        self.excused: set[str] = set()
        self._bound: dict[str, set[str]] | None = None
        self._attempts: dict[str, str] = {}
        self._groups: dict[str, tuple[str, ...]] = {}

    def look(
        self,
        pods: Iterable[kube.Pod],
        pod_groups: Iterable[kube.PodGroup],
        schedulers: frozenset[str],
        reservations: Iterable[kube.Reservation] = (),
    ) -> None:
        """The next complete look; sets `excused`."""
        gangs: dict[str, _Gang] = {}
        attempts: dict[str, str] = {}
        suspects: set[str] = set()
        for member in _members(pods, reservations, schedulers):
            said = member.said
            gang = gangs.setdefault(said.gang, _Gang())
            if gang.config is None or gang.config.min_member is None:
                gang.config = said.config
            gang.members += 1
            if member.node:
                gang.bound.add(member.uid)
                continue
            attempt = attempts[member.uid] = said.annotations.get(names.ANNOTATION_ATTEMPT, "0")
            if self._bound is not None and attempt != self._attempts.get(member.uid, "0"):
                suspects.add(said.gang)
        for group in pod_groups:
            config = config_of(group)
            gangs.setdefault(config.id, _Gang()).config = config
        suspects |= self._short_of_members(gangs)
        self._remember_groups(gangs, suspects)
        self.excused = self._still_half(gangs, self.excused | suspects)
        self._bound, self._attempts = {gang_id: gang.bound for gang_id, gang in gangs.items()}, attempts

    def _short_of_members(self, gangs: dict[str, _Gang]) -> set[str]:
        """Gangs that lack members, or of which a bound one is there no more, or which we have only just met."""
        if self._bound is None:
            return set(gangs)
        return {gang_id for gang_id, gang in gangs.items() if gang.members < gang.minimum} | {
            gang_id for gang_id, uids in self._bound.items() if uids - gangs.get(gang_id, _Gang()).bound
        }

    def _remember_groups(self, gangs: dict[str, _Gang], suspects: set[str]) -> None:
        """Who starts together, also of gangs whose settings are gone since the look before."""
        known = {gang_id: gang.config.group for gang_id, gang in gangs.items() if gang.config and gang.config.group}
        former = self.excused | suspects | gangs.keys()
        self._groups = {gang_id: group for gang_id, group in self._groups.items() if gang_id in former} | known

    def _still_half(self, gangs: dict[str, _Gang], suspects: set[str]) -> set[str]:
        found: set[str] = set()
        for gang_id in suspects:
            group = self._groups.get(gang_id) or (gang_id,)
            members = [gangs.get(each, _Gang()) for each in group]
            if any(each.bound for each in members) and not all(each.is_whole for each in members):
                found.update(group)
        return found
