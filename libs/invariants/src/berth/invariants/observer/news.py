"""What nodes lend on: nothing is lent on a report that is older than the strategy lets it be (I42).

A report is as old as it is that it came, whatever its node's clock says. Who counts by an offer that should have been
taken back is judged once everybody can have seen that it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from berth.contracts.ledger import Decision
from berth.contracts.names import ANNOTATION_COLOCATION_STRATEGY
from berth.contracts.slo import CONFIG_MAP
from berth.invariants.observer.sight import Reader, Sight
from berth.invariants.observer.verdicts import Verdicts

LAW: Final = "I42"
DEGRADE_MIN: Final = 15
"""Minutes, where the strategy does not say so."""
_KEY: Final = "colocation-config"
_FIELD: Final = "degradeTimeMinutes"


class News:
    """When each node was last heard of, for those of which the observer is told."""

    def __init__(self, verdicts: Verdicts, sight: Sight) -> None:
        self._verdicts = verdicts
        self._sight = sight
        self._heard_s: dict[str, float] = {}
        self._own_strategy: set[str] = set()
        self._counts_s = 60.0 * DEGRADE_MIN

    def reported(self, node: str) -> None:
        """A report of what the node uses has come, and says something new."""
        self._heard_s[node] = self._sight.now_s

    def see_node(self, data: Mapping[str, Any], deleted: bool) -> None:
        """A node with a strategy of its own is not judged."""
        name, notes = data["metadata"]["name"], data["metadata"].get("annotations") or {}
        is_own = not deleted and ANNOTATION_COLOCATION_STRATEGY in notes
        (self._own_strategy.add if is_own else self._own_strategy.discard)(name)

    def see_config_map(self, data: Mapping[str, Any], deleted: bool) -> None:
        """The strategies: of those that say how long a report counts, the most patient one."""
        meta = data["metadata"]
        if f"{meta.get('namespace')}/{meta['name']}" != CONFIG_MAP or deleted:
            return
        try:
            read = msgspec.json.decode((data.get("data") or {}).get(_KEY) or "{}", type=dict[str, Any])
        except msgspec.MsgspecError:
            return  # what was said before goes on
        strategies = [read, *(each for each in read.get("nodeConfigs") or () if isinstance(each, dict))]
        said = [each[_FIELD] for each in strategies if isinstance(each.get(_FIELD), int)]
        self._counts_s = 60.0 * max(said if _FIELD in read else [DEGRADE_MIN, *said])

    def decided(self, decision: Decision) -> None:
        """A decision for a pod that borrows."""
        over_s = self._over_s(decision.node) if decision.offer else None
        if over_s is None:
            return
        self._verdicts.judged(LAW)
        if self._sight.now_s <= over_s:
            return
        if not self._sight.has_seen(Reader.SOLVER, over_s):
            self._verdicts.excused(LAW, self._sight.excuse(over_s))
            return
        text = f"{decision.namespace}/{decision.name} borrows by offer {decision.offer} of node {decision.node}"
        self._verdicts.add(LAW, f"node {decision.node}, {decision.name}", f"{text}, {self._silence(decision.node)}")

    def silent(self) -> Iterator[tuple[str, str]]:
        """Nodes that must lend nothing any more, as everybody can have seen, and why."""
        for node in sorted(self._heard_s):
            over_s = self._over_s(node)
            if over_s is not None and self._sight.now_s > over_s and self._sight.has_seen(Reader.SOLVER, over_s):
                yield node, self._silence(node)

    def _over_s(self, node: str) -> float | None:
        """When its newest report counts no longer; None: that is not known."""
        heard_s = self._heard_s.get(node)
        return None if heard_s is None or node in self._own_strategy else heard_s + self._counts_s

    def _silence(self, node: str) -> str:
        silent_s = self._sight.now_s - self._heard_s[node]
        return f"of which nothing was heard for {silent_s:.0f} s, and a report counts for {self._counts_s:.0f} s"
