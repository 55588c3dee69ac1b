"""Devices by what they are called: a card that was swapped for another one under its minor is another card (I1g)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.contracts import names
from berth.contracts.ledger import Decision
from berth.invariants.facts import read_device_names
from berth.invariants.observer.pods import Watched
from berth.invariants.observer.sight import Reader, Sight
from berth.invariants.observer.verdicts import Verdicts

Card = tuple[str, str]


class Named:
    """What devices are called, and since when."""

    def __init__(self, verdicts: Verdicts, sight: Sight) -> None:
        self._verdicts = verdicts
        self._sight = sight
        self._names: dict[str, dict[Card, tuple[str, float]]] = {}

    def see_device(self, data: Mapping[str, Any], deleted: bool) -> None:
        """The devices of a node. One that is not there keeps its name: whether it may be given out is another law, as
        it is of one without a name."""
        known = self._names.setdefault(data["metadata"]["name"], {})
        for each in () if deleted else (data.get("spec") or {}).get("devices") or ():
            card = (each.get("type", ""), str(each.get("minor", 0)))
            name = each.get("id") or ""
            if known.get(card, ("", 0.0))[0] != name:
                known[card] = (name, self._sight.now_s)

    def decided(self, decision: Decision) -> None:
        """Devices were given out by what they were called when they were chosen."""
        text = "/".join((decision.namespace, decision.name)) if decision.namespace else f"reservation {decision.name}"
        self._judge(text, decision.plan, decision.node, decision.annotations, Reader.INVENTORY)

    def bound(self, pod: Watched) -> None:
        """A pod has got its node, and is told what its devices are called."""
        self._judge(pod.text, pod.plan, pod.node, pod.annotations, Reader.WRITER)

    def _judge(self, text: str, plan: str, node: str, notes: Mapping[str, str], reader: Reader) -> None:
        if names.ANNOTATION_DEVICE_ALLOCATED not in notes:
            return
        known = self._names.get(node, {})
        for card, name in read_device_names(notes).items():
            now, since_s = known.get(card, ("", self._sight.now_s))
            if not now:
                continue
            if name == now:
                self._verdicts.judged("I1g")
            elif not self._sight.has_seen(reader, since_s):
                self._verdicts.excused("I1g", self._sight.excuse(since_s))
            else:
                self._verdicts.judged("I1g")
                verb = "bound to" if reader is Reader.WRITER else "decided for"
                evidence = f"{text}: is {verb} {card[0]} {card[1]} of {node} as {name}, it is {now}"
                self._verdicts.add("I1g", f"{text}, plan {plan}, {verb}", evidence)
