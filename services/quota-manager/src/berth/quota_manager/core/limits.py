"""What is published of a group, and with which revision.

A message is written again only when it says something else. Its revision then rises, so that a solver which charged a
group under an older runtime can be distinguished; a mere change of demand keeps the revision and does not hurry.

Revisions are one sequence for all groups, never below the clock in milliseconds: even a bucket that lost its content,
or a group that was deleted and made again, continues above everything that was ever used on an account.
"""

from typing import Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.kube import Requirement
from berth.contracts.quota import QuotaGroup, QuotaRules
from berth.quota_manager.core.forest import Group
from berth.resources.amounts import Amounts, without_zeros
from berth.resources.quantity import AMOUNT_MAX

FORMER_TREES_MAX: Final = 8
"""More moves between trees than solvers are behind by."""
REMEMBERED_MAX: Final = 20_000
BUILT_IN_UNLIMITED: Final = 2**63 // 5
"""From here on a ceiling of the system or default group means "none": it is what the protocol gives them."""


class Frame(NamedTuple):
    """What of a group's message follows from objects alone, the key that it is written under, and its object."""

    key: str
    object: str
    message: QuotaGroup


def frame_message(
    group: Group, namespaces: list[str], *, nodes: list[Requirement] | None = None, rules: QuotaRules | None = None
) -> QuotaGroup:
    """The message of a group without figures, and with revision 0.

    The built-in groups limit nothing unless somebody gave them a real ceiling: a limit would make every placement of
    theirs charge one account.
    """
    spec = group.spec
    ceiling = _ordered(spec.max)
    if group.is_built_in:
        ceiling = {key: limit for key, limit in ceiling.items() if limit < BUILT_IN_UNLIMITED}
    return QuotaGroup(
        tree=group.tree,
        name=group.name,
        revision=0,
        parent=spec.parent,
        ancestors=[] if group.is_detached else [above.name for above in group.ancestors()],
        limits=list(ceiling),
        min=_ordered(spec.min),
        max=ceiling,
        lends=group.lends,
        namespaces=namespaces,
        nodes=nodes or [],
        rules=rules or QuotaRules(),
    )


def with_figures(frame: QuotaGroup, group: Group, problems: list[Problem], *, uses_runtime: bool) -> QuotaGroup:
    """The message of a group with its present figures; all else is the frame's.

    A resource of the max that the level does not share (the parent does not name it) is limited by the max alone.
    """
    ceiling = frame.max
    runtime = ceiling
    if uses_runtime or group.is_detached:
        there = group.runtime
        runtime = _bounded({key: there.get(key, limit) for key, limit in ceiling.items()})
    return msgspec.structs.replace(
        frame,
        is_parent=bool(group.children) or group.spec.is_parent,
        runtime=runtime,
        request=_ordered(without_zeros(group.request) if 0 in group.request.values() else group.request),
        problems=problems,
        effective_min={} if group.is_detached else _ordered(group.effective_min),
    )


class PublishedGroups:
    """What the bucket holds, as far as its owner knows, and the highest revision ever seen."""

    def __init__(self) -> None:
        self.messages: dict[str, QuotaGroup] = {}
        self.revision = 0
        self._last: dict[str, QuotaGroup] = {}
        """By name, in whichever tree, also of groups that are gone: who comes back elsewhere has moved."""

    def saw(self, key: str, message: QuotaGroup | None) -> None:
        """The bucket shows this message (None: nothing) under a key.

        An older message than the one at hand is the echo of a write that was overtaken by a newer one.
        """
        if message is None:
            self.messages.pop(key, None)
            return
        last = self._last.get(message.name)
        if last is None or message.revision >= last.revision:
            self._remember(message)
        self.revision = max(self.revision, message.revision)
        known = self.messages.get(key)
        if known is None or message.revision >= known.revision:
            self.messages[key] = message

    def next_revision(self, now_ms: int) -> int:
        """A revision above every one before; the same for all groups of one round."""
        return max(self.revision + 1, now_ms)

    def successor(
        self, key: str, wanted: QuotaGroup, revision: int, *, demand_too: bool, renews: bool = False
    ) -> QuotaGroup | None:
        """The message to write in place of the present one, or None when that says the same already.

        Args:
            key: of QUOTA.
            wanted: what to say; its revision is not looked at.
            revision: of this round.
            demand_too: a change of the request alone is worth a write.
            renews: the revision is to be new whatever the bucket says.
        """
        known = self.messages.get(key)
        message = self._placed(wanted, self._last.get(wanted.name), revision)
        if renews or known is None or _says_otherwise(known, message):
            pass
        elif known.over_since_ms != wanted.over_since_ms or (
            demand_too and (known.request, known.problems) != (wanted.request, wanted.problems)
        ):
            message = msgspec.structs.replace(message, revision=known.revision)
        else:
            return None
        self.messages[key] = message
        self._remember(message)
        self.revision = max(self.revision, message.revision)
        return message

    def _placed(self, wanted: QuotaGroup, last: QuotaGroup | None, revision: int) -> QuotaGroup:
        """With this revision, and where it was before. Who changes its tree along with the group above it is known by
        that one."""
        if last is None:
            return msgspec.structs.replace(wanted, revision=revision)
        if (last.tree, last.parent) == (wanted.tree, wanted.parent) and wanted.tree not in last.former_trees:
            return msgspec.structs.replace(wanted, revision=revision, moved=last.moved, former_trees=last.former_trees)
        is_other_tree = last.tree != wanted.tree
        has_moved = last.parent != wanted.parent or (is_other_tree and not wanted.ancestors)
        former = [*last.former_trees, last.tree] if is_other_tree and has_moved else last.former_trees
        return msgspec.structs.replace(
            wanted,
            revision=revision,
            moved=revision if has_moved else 0 if is_other_tree else last.moved,
            former_trees=[tree for tree in dict.fromkeys(former) if tree != wanted.tree][-FORMER_TREES_MAX:],
        )

    def _remember(self, message: QuotaGroup) -> None:
        self._last[message.name] = message
        if len(self._last) > REMEMBERED_MAX:
            there = {each.name for each in self.messages.values()}
            self._last = {name: each for name, each in self._last.items() if name in there}


def _says_otherwise(known: QuotaGroup, wanted: QuotaGroup) -> bool:
    """Whether they differ in more than what may change under one revision."""
    same = msgspec.structs.replace(
        wanted,
        revision=known.revision,
        request=known.request,
        problems=known.problems,
        over_since_ms=known.over_since_ms,
    )
    return same != known


def _ordered(amounts: Amounts) -> Amounts:
    """In the order of names, so that equal vectors are equal bytes."""
    return _bounded({key: amounts[key] for key in sorted(amounts)} if len(amounts) > 1 else dict(amounts))


def _bounded(amounts: Amounts) -> Amounts:
    """No amount beyond what can be said. Mostly none is."""
    if amounts and max(amounts.values()) > AMOUNT_MAX:
        return {key: min(amount, AMOUNT_MAX) for key, amount in amounts.items()}
    return amounts
