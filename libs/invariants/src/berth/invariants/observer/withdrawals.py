"""Why a decision may be withdrawn: what cluster-writer judges by (docs/transaction.md, "cluster-writer, a wave").

- An epoch after its own is being raised, which withdraws whatever is not bound.
- Its node is gone, or going, or another one has registered under the name.
- A cordon or a taint of the node keeps it off, or a card that it takes is broken or not there (`keeps_off`).
- A pod that is not Berth's holds a card that it takes, or nobody knows which.
- The node takes fewer pods than there are, or offers less of something that it asks for than is held there. (A device
  that Berth's own pods hold twice is no reason to withdraw anything: it raises the epoch.)

- The API server refuses the bind for good: an admission policy bars the node (`bar`), which the administrator of the
  cluster has to tell; or what is asked is malformed, which no bind is.

What the writer goes by, it has read from STATE, which may be behind: so what has just ceased to be a reason still is
one until the writer must have seen that, and a refusal until its decision is withdrawn, which may take
`REFUSED_S`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from berth.contracts import names
from berth.contracts.grants import granted
from berth.contracts.ledger import Decision
from berth.invariants.counts import Excuse
from berth.invariants.facts import BY_MINOR, amounts_of
from berth.invariants.observer.calm import NEVER
from berth.invariants.observer.capacity import Capacity
from berth.invariants.observer.decided import Decided, Record
from berth.invariants.observer.holds import Hold, minors_of
from berth.invariants.observer.sight import Reader, Sight
from berth.invariants.things import WHOLE
from berth.resources.amounts import Amounts

REFUSED_S = 60.0
"""From the refusal of a bind to the withdrawal of its decision, which the API server may refuse as well."""


class Withdrawals:
    """What is the matter with nodes, and when something was.

    `keeps_off`: whether a node, or a card that was given, is no good for a decision. `reserved`: what the Reservations
    of a node hold of a resource.
    """

    def __init__(
        self,
        capacity: Capacity,
        decided: Decided,
        sight: Sight,
        keeps_off: Callable[[Decision], bool],
        reserved: Callable[[str, str], int],
    ) -> None:
        self._capacity = capacity
        self._decided = decided
        self._sight = sight
        self._keeps_off = keeps_off
        self._reserved = reserved
        self._offered: dict[str, Amounts] = {}
        self._former: dict[str, list[tuple[float, Amounts]]] = {}
        """By node: what it offered before, and until when."""
        self._uids: dict[str, str] = {}
        self._going: set[str] = set()
        self._gone_s: dict[str, float] = {}
        self._epoch_s = -NEVER
        self._barred: dict[str, float] = {}
        """Nodes that an admission policy bars or barred, and until when."""

    def bar(self, node: str, until_s: float) -> None:
        """An admission policy refuses every bind onto a node until then."""
        self._barred[node] = max(until_s, self._barred.get(node, -NEVER))

    def see_node(self, data: Mapping[str, Any], deleted: bool) -> None:
        """A node: whether it is there, and what it offers."""
        name = data["metadata"]["name"]
        before = self._offered.pop(name, None)
        self._going.discard(name)
        if deleted:
            self._gone_s[name] = self._sight.now_s
            return
        now = self._offered[name] = amounts_of((data.get("status") or {}).get("allocatable"))
        self._uids[name] = data["metadata"].get("uid", "")
        if data["metadata"].get("deletionTimestamp"):
            self._going.add(name)
        if before is not None and now != before:
            former = [each for each in self._former.get(name, ()) if self._is_recent(each[0])]
            self._former[name] = [*former, (self._sight.now_s, before)]

    def epoch_begins(self) -> None:
        """A new epoch begins; who has raised it, or one before it, may still be at it."""
        if self._decided.lease_epoch >= self._decided.newest_epoch:
            self._epoch_s = self._sight.now_s

    def reason(self, records: Iterable[Record]) -> Excuse | None:
        """Why somebody may withdraw a pod of which this was decided; None: nobody may."""
        records = list(records)
        newest, named = self._decided.newest_epoch, self._decided.lease_epoch
        raised = named if named > newest else newest if self._is_recent(self._epoch_s) else 0
        if any(each.epoch < raised for each in records):
            return Excuse.EPOCH
        return Excuse.UNFIT if any(self._cannot_land(each.decision) for each in records) else None

    def _cannot_land(self, decision: Decision) -> bool:
        node = decision.node
        if node not in self._offered or node in self._going or self._is_recent(self._gone_s.get(node, -NEVER)):
            return True
        if self._sight.now_s < self._barred.get(node, -NEVER) + REFUSED_S:
            return True
        if (decision.node_uid and decision.node_uid != self._uids.get(node)) or self._keeps_off(decision):
            return True
        holds = self._holds(node)
        return self._holds_its_cards(decision, holds) or self._lacks(decision, holds)

    def _holds(self, node: str) -> list[Hold]:
        """Who holds capacity of a node, or did until a moment ago."""
        here = self._capacity.on_node.get(node, {})
        left = (hold for at_s, hold in self._capacity.left.get(node, ()) if self._is_recent(at_s))
        return [*here.values(), *{hold.uid: hold for hold in left if hold.uid not in here}.values()]

    def _holds_its_cards(self, decision: Decision, holds: list[Hold]) -> bool:
        """Whether somebody who is no pod of Berth's does."""
        if not granted(decision.allocation):
            return False
        kinds = {grant.kind for grant in granted(decision.allocation)}
        if any(not hold.is_ours and not hold.unknown.isdisjoint(kinds) for hold in holds):
            return True
        minors = [minor for minor, _ in minors_of(decision.node, granted(decision.allocation)) if minor[3] in WHOLE]
        for minor in minors:
            held = [(hold, amount) for hold in holds for each, amount in hold.devices if each == minor]
            if any(not hold.is_ours for hold, _ in held) and sum(amount for _, amount in held) > WHOLE[minor[3]]:
                return True
        return False

    def _lacks(self, decision: Decision, holds: list[Hold]) -> bool:
        """Whether the node offers, or offered until a moment ago, less of what it asks for than is held there."""
        node = decision.node
        former = (amounts for until_s, amounts in self._former.get(node, ()) if self._is_recent(until_s))
        offers = [self._offered[node], *former]
        slots = [each[names.PODS] for each in offers if names.PODS in each]
        if slots and len(holds) > min(slots):
            return True
        return any(
            sum(hold.amounts.get(name, 0) for hold in holds) + self._reserved(node, name)
            > min(each.get(name, 0) for each in offers)
            for name, amount in decision.allocation.amounts.items()
            if amount > 0 and name not in BY_MINOR
        )

    def _is_recent(self, at_s: float) -> bool:
        return not self._sight.has_seen(Reader.WRITER, at_s)
