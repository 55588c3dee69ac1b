"""Which cards kubelets have picked, by what Devices say of it: from then on they are somebody's (I1).

Kubelet keeps a pod's cards until the pod is over, so what was said once holds for as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.contracts.grants import granted
from berth.contracts.ledger import Decision
from berth.invariants.facts import read_picked
from berth.invariants.observer.capacity import Capacity
from berth.invariants.observer.holds import Hold
from berth.invariants.observer.verdicts import Verdicts
from berth.invariants.things import GPU
from berth.rules.gpu_request import WHOLE_CARDS


class Picked:
    """Minors by uid of the pod."""

    def __init__(self, capacity: Capacity, verdicts: Verdicts) -> None:
        self._capacity = capacity
        self._verdicts = verdicts
        self._said: dict[str, frozenset[str]] = {}
        capacity.says_which = self._says_which

    def see_device(self, data: Mapping[str, Any], deleted: bool) -> None:
        """What the Device of a node says."""
        if not deleted:
            cards = read_picked(data["metadata"].get("annotations") or {})
            self._said |= {uid: frozenset(map(str, minors)) for uid, minors in cards.items()}

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._said.pop(uid, None)

    def _says_which(self, hold: Hold) -> bool:
        asked = sum(hold.amounts.get(name, 0) for name in WHOLE_CARDS)
        return asked > 0 and len(self._said.get(hold.uid, ())) == asked

    def decided(self, decision: Decision) -> None:
        """Cards were given out: none of them is somebody else's by kubelet's word."""
        minors = {grant.id for grant in granted(decision.allocation) if grant.kind == GPU}
        for hold in self._capacity.on_node.get(decision.node, {}).values() if minors else ():
            both = minors & self._said.get(hold.uid, frozenset()) if hold.uid != decision.uid else frozenset()
            if both and not hold.chips:
                text = f"is given gpu {min(both)} of {decision.node}, which kubelet has picked for {hold.text}"
                name = f"{decision.namespace}/{decision.name}"
                self._verdicts.add("I1", f"{name}, plan {decision.plan}", f"{name}: {text}")
