"""Who may not be evicted, whatever the plan says: protected pods, and members that a strict gang needs (E9, E10)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from berth.contracts.ledger import Decision
from berth.contracts.state import Pod, PodGroup
from berth.rules.gang_config import GangConfig, gang_of_pod_group
from berth.rules.gang_member import Member, gang_id_of, gang_of_member
from berth.rules.preemption import why_protected
from berth.transaction.book import FINISHED_PHASES, Book
from berth.transaction.claims import Name

STRICT = "Strict"


class RunningGangs:
    """The members of each gang (`namespace/name`) that are on a node and have not ended, by what they say."""

    def __init__(self) -> None:
        self._of: dict[str, dict[Name, Member]] = {}
        self._gang: dict[Name, str] = {}

    def clear(self) -> None:
        """The view starts over."""
        self._of.clear()
        self._gang.clear()

    def see(self, name: Name, obj: Member | None) -> None:
        """A pod or Reservation was written or, with None, deleted."""
        old = self._gang.pop(name, "")
        if old:
            members = self._of[old]
            del members[name]
            if not members:
                del self._of[old]
        if obj is None or not obj.node or obj.phase in FINISHED_PHASES:
            return
        gang_id = gang_id_of(obj)
        if gang_id:
            self._gang[name] = gang_id
            self._of.setdefault(gang_id, {})[name] = obj

    def staying(self, gang_id: str) -> Iterator[Member]:
        """Those that are not leaving. A Reservation never leaves for others, so a gang stays where it has one."""
        return (member for member in self._of.get(gang_id, {}).values() if not member.deleting)


def why_stays(
    victim: Pod, chosen: Collection[str], groups: Mapping[tuple[str, str], PodGroup], running: RunningGangs
) -> str:
    """Why a pod is nobody's victim by now; empty: it may leave. `chosen` are the uids of all that leave with it.

    A strict gang leaves whole, or keeps as many members as it needs.
    """
    protected = why_protected(victim)
    if protected:
        return f"{victim.namespace}/{victim.name} is protected: {protected}"
    config = strict_gang_of(victim, groups)
    if config is None:
        return ""
    left = sum(1 for member in running.staying(config.id) if member.uid not in chosen)
    if not left or (config.min_member is not None and left >= config.min_member):
        return ""
    needed = "an unknown number" if config.min_member is None else config.min_member
    return f"{victim.namespace}/{victim.name} leaves {left} of the strict gang {config.id}, which needs {needed}"


def strict_gang_of(member: Member, groups: Mapping[tuple[str, str], PodGroup]) -> GangConfig | None:
    """What holds for the strict gang of a pod or Reservation; None: it is in none."""
    config = _config_of(member, groups)
    return config if config is not None and config.mode == STRICT else None


def leaving_together(victims: Sequence[Pod], groups: Mapping[tuple[str, str], PodGroup]) -> list[list[Pod]]:
    """The victims in their order, those of one strict gang together: once one of them has gone, all go."""
    found: dict[str, list[Pod]] = {}
    for victim in victims:
        config = strict_gang_of(victim, groups)
        found.setdefault(config.id if config is not None else victim.uid, []).append(victim)
    return list(found.values())


def wait_s_of(members: Sequence[Decision], book: Book, groups: Mapping[tuple[str, str], PodGroup]) -> float | None:
    """How many seconds a gang may wait with its places (`waiting-time`); None: it is no gang, or is not known."""
    if members[0].gang is None:
        return None
    seen = (_object_of(each, book) for each in members)
    configs = [_config_of(each, groups) for each in seen if each is not None]
    return min((config.wait_s for config in configs if config is not None), default=None)


def goes_on(
    current: Sequence[Decision], book: Book, groups: Mapping[tuple[str, str], PodGroup], running: RunningGangs
) -> bool:
    """Whether these members, with those that run, are as many as every gang of their group needs."""
    ref = current[0].gang
    if ref is None:
        return True
    there: dict[str, int] = {}
    minimum: dict[str, int | None] = {}
    for each in current:
        seen = _object_of(each, book)
        config = _config_of(seen, groups) if seen is not None else None
        if config is not None:
            there[config.id] = there.get(config.id, 0) + 1
            minimum[config.id] = config.min_member
    for gang_id in ref.name.split(","):
        needed = minimum.get(gang_id)
        if needed is None or there[gang_id] + sum(1 for _ in running.staying(gang_id)) < needed:
            return False
    return True


def _object_of(decision: Decision, book: Book) -> Member | None:
    seen = book.seen((decision.namespace, decision.name))
    return seen if seen is not None and seen.uid == decision.uid else None


def _config_of(member: Member, groups: Mapping[tuple[str, str], PodGroup]) -> GangConfig | None:
    """What holds for the gang of a pod or Reservation: a PodGroup speaks for its members, without one they speak for
    themselves."""
    config = gang_of_member(member)
    group = groups.get((member.namespace, config.name)) if config is not None else None
    if group is None:
        return config
    return gang_of_pod_group(
        group.namespace,
        group.name,
        min_member=group.min_member,
        schedule_timeout_s=group.schedule_timeout_s,
        annotations=group.annotations,
        found=group.problems,
    )
