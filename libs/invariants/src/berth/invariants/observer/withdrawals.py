"""Why a decision may be withdrawn: what cluster-writer judges by (docs/transaction.md, "cluster-writer, a wave").

- A new epoch is being raised, which withdraws whatever is not bound.
- Its node is gone, or going.
- Somebody who is no pod of Berth's holds room on the node.
- The node takes fewer pods than there are, or offers less of something than they hold. (A device that Berth's own pods
  hold twice is no reason to withdraw anything: it raises the epoch.)

What the writer goes by, it has read from STATE, which may be behind: so what has just ceased to be a reason still is
one for `lag_s` in which nothing was in the way of seeing it. A bind that the API server refuses for good is a reason
that nobody sees here: it refuses what is malformed alone, and no bind is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from berth.contracts import names
from berth.contracts.ledger import Decision
from berth.invariants.amounts import SHRINKING
from berth.invariants.facts import BY_MINOR, amounts_of
from berth.invariants.observer.calm import NEVER, Calm
from berth.invariants.observer.capacity import Capacity
from berth.invariants.observer.decided import Decided
from berth.invariants.observer.pods import Watched
from berth.resources.amounts import Amounts


class Withdrawals:
    """What is the matter with nodes, and when (by `sight`) something was."""

    def __init__(self, capacity: Capacity, decided: Decided, sight: Calm, lag_s: float) -> None:
        self._capacity = capacity
        self._decided = decided
        self._sight = sight
        self._lag_s = lag_s
        self._offered: dict[str, Amounts] = {}
        self._going: set[str] = set()
        self._changed_s: dict[str, float] = {}
        self._shrunk_s: dict[str, float] = {}
        self._epoch_s = -NEVER

    def see_node(self, data: Mapping[str, Any], deleted: bool) -> None:
        """A node: whether it is there, and what it offers."""
        name = data["metadata"]["name"]
        before = self._offered.pop(name, None)
        self._going.discard(name)
        now = None if deleted else amounts_of((data.get("status") or {}).get("allocatable"))
        if now is not None:
            self._offered[name] = now
            if data["metadata"].get("deletionTimestamp"):
                self._going.add(name)
        is_known = before is not None or name in self._changed_s
        if is_known and (now is None or before is None or _lasting(now) != _lasting(before)):
            self._changed_s[name] = self._sight.now_s
        if now != before:
            self._shrunk_s[name] = self._sight.now_s

    def stranger(self, pod: Watched) -> None:
        """A pod that is not Berth's has come to a node, has ended there, or left it."""
        if pod.node:
            self._changed_s[pod.node] = self._sight.now_s

    def epoch_begins(self) -> None:
        """A new epoch begins; who has raised it, or one before it, may still be at it."""
        if self._decided.lease_epoch >= self._decided.newest_epoch:
            self._epoch_s = self._sight.now_s

    def may_be(self, decisions: Iterable[Decision]) -> bool:
        """Whether somebody may withdraw a pod of which this was decided."""
        if self._decided.lease_epoch > self._decided.newest_epoch or self._is_recent(self._epoch_s):
            return True
        return any(map(self._cannot_land, decisions))

    def _cannot_land(self, decision: Decision) -> bool:
        node = decision.node
        offered = self._offered.get(node)
        if offered is None or node in self._going or self._is_recent(self._changed_s.get(node, -NEVER)):
            return True
        holds = self._capacity.on_node.get(node, {}).values()
        if any(not each.is_ours for each in holds) or len(holds) > offered.get(names.PODS, len(holds)):
            return True
        asked = [name for name, amount in decision.allocation.amounts.items() if amount > 0 and name not in BY_MINOR]
        has_shrunk = self._is_recent(self._shrunk_s.get(node, -NEVER)) and not SHRINKING.isdisjoint(asked)
        return has_shrunk or any(
            sum(each.amounts.get(name, 0) for each in holds) > offered.get(name, 0) for name in asked
        )

    def _is_recent(self, at_s: float) -> bool:
        return self._sight.now_s - at_s <= self._lag_s


def _lasting(offered: Amounts) -> Amounts:
    return {name: amount for name, amount in offered.items() if name not in SHRINKING}
