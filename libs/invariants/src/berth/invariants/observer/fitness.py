"""What may be used at all: cards that are there and healthy (I1e), nodes that are there and let a pod in (I1f).

What breaks, goes, or is closed counts once everybody can have seen it: after the lag in which nothing was in the way of
seeing it. A pod that was bound before stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from berth.contracts import kube
from berth.contracts.grants import DEVICE_KINDS, granted
from berth.contracts.ledger import Decision, Grant
from berth.invariants.observer.calm import NEVER
from berth.invariants.observer.pods import Watched
from berth.invariants.observer.sight import Reader, Sight
from berth.invariants.observer.verdicts import Verdicts
from berth.rules.taints import NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE_TAINT, tolerates

Name = tuple[str, str]
Card = tuple[str, str]
Mark = tuple[str, str, str]
"""Key, value and effect of a taint; a cordon is one as well."""
HARD: Final = (NO_SCHEDULE, NO_EXECUTE)


class Fitness:
    """Since when cards and nodes are no good, and a judgement of those that are given out.

    `tolerations` gives those of the pod, or of the template of the Reservation (with an empty namespace), of a name.
    """

    def __init__(
        self,
        verdicts: Verdicts,
        sight: Sight,
        tolerations: Callable[[Name], Iterable[Mapping[str, Any]]],
    ) -> None:
        self._verdicts = verdicts
        self._sight = sight
        self._tolerations = tolerations
        self._cards: dict[str, dict[Card, float]] = {}
        self._marks: dict[str, dict[Mark, float]] = {}
        self._absent: dict[str, float] = {}
        self._mended_s: dict[str, dict[Card, float]] = {}
        self._lifted_s: dict[str, dict[Mark, float]] = {}
        """By node: when a card was no good, or a taint was there, for the last time."""

    def see_device(self, data: Mapping[str, Any], deleted: bool) -> None:
        """The devices of a node; what it no longer names is gone, what it never named never was."""
        node = data["metadata"]["name"]
        listed = () if deleted else (data.get("spec") or {}).get("devices") or ()
        named = {(each.get("type", ""), str(each.get("minor", 0))): each.get("health") is True for each in listed}
        cards, now_s = self._cards.setdefault(node, {}), self._sight.now_s
        for card in cards.keys() | named.keys():
            if named.get(card):
                if cards.get(card, NEVER) != NEVER:
                    self._mended_s.setdefault(node, {})[card] = now_s
                cards[card] = NEVER
            elif cards.get(card, NEVER) == NEVER:
                cards[card] = now_s

    def see_node(self, data: Mapping[str, Any], deleted: bool) -> None:
        """A node: whether it is there, and what keeps pods off it."""
        name = data["metadata"]["name"]
        if deleted:
            self._marks.pop(name, None)
            self._absent[name] = self._sight.now_s
            return
        self._absent[name] = NEVER
        spec = data.get("spec") or {}
        now = {(each["key"], each.get("value") or "", each.get("effect") or "") for each in spec.get("taints") or ()}
        if spec.get("unschedulable"):
            now.add((UNSCHEDULABLE_TAINT.key, "", NO_SCHEDULE))
        before = self._marks.get(name, {})
        for mark in before.keys() - now:
            self._lifted_s.setdefault(name, {})[mark] = self._sight.now_s
        self._marks[name] = {mark: before.get(mark, self._sight.now_s) for mark in sorted(now) if mark[2] in HARD}

    def decided(self, decision: Decision) -> None:
        """Capacity was given out."""
        name = (decision.namespace, decision.name)
        text = "/".join(name) if name[0] else f"reservation {name[1]}"
        self._judge(name, text, decision.node, granted(decision.allocation), decision.plan, Reader.SOLVER)

    def bound(self, pod: Watched) -> None:
        """A pod has got its node."""
        self._judge(pod.name, pod.text, pod.node, pod.held_devices, pod.plan, Reader.WRITER)

    def keeps_off(self, decision: Decision) -> bool:
        """Whether something keeps the object off its node or a card of its, or did when the writer looked last."""
        node, name = decision.node, (decision.namespace, decision.name)
        cards, mended_s = self._cards.get(node, {}), self._mended_s.get(node, {})
        for each in _devices(granted(decision.allocation)):
            card = (each.kind, each.id)
            if cards.get(card, -NEVER) != NEVER or self._is_recent(mended_s.get(card, -NEVER)):
                return True
        lifted = (mark for mark, at_s in self._lifted_s.get(node, {}).items() if self._is_recent(at_s))
        return any(not self._lets_in(name, mark) for mark in (*self._marks.get(node, {}), *lifted))

    def _judge(self, name: Name, text: str, node: str, grants: Sequence[Grant], plan: str, reader: Reader) -> None:
        verb = "bound to" if reader is Reader.WRITER else "decided for"
        subject = f"{text}, plan {plan}, {verb}"
        absent_s = self._absent.get(node, -NEVER)
        if absent_s != NEVER and self._counts_for("I1f", reader, absent_s):
            evidence = f"{text}: is {verb} {node}, which is not there{self._for(reader, absent_s)}"
            self._verdicts.add("I1f", subject, evidence)
            return
        marks = [each for each in self._marks.get(node, {}).items() if not self._lets_in(name, each[0])]
        for mark, since_s in marks:
            if self._counts_for("I1f", reader, since_s):
                evidence = f"{text}: is {verb} {node}, which has {mark[0]}:{mark[2]}{self._for(reader, since_s)}"
                self._verdicts.add("I1f", subject, evidence)
        if absent_s == NEVER and not marks:
            self._verdicts.judged("I1f")
        reader = Reader.INVENTORY if reader is Reader.SOLVER else reader
        for card, since_s in self._cards_of(node, grants):
            if since_s == NEVER:
                self._verdicts.judged("I1e")
            elif self._counts_for("I1e", reader, since_s):
                what = f"{node}, {card[0]} {card[1]}, which is broken or not there{self._for(reader, since_s)}"
                self._verdicts.add("I1e", subject, f"{text}: is {verb} {what}")

    def _cards_of(self, node: str, grants: Sequence[Grant]) -> Iterator[tuple[Card, float]]:
        """What is given, and since when it is no good; NEVER: it is."""
        cards = self._cards.get(node, {})
        for grant in _devices(grants):
            card = (grant.kind, grant.id)
            yield card, cards.get(card, -NEVER)

    def _counts_for(self, promise: str, reader: Reader, since_s: float) -> bool:
        """Whether it must have seen what has been so since then."""
        if not self._sight.has_seen(reader, since_s):
            self._verdicts.excused(promise, self._sight.excuse(since_s))
            return False
        self._verdicts.judged(promise)
        return True

    def _is_recent(self, at_s: float) -> bool:
        return not self._sight.has_seen(Reader.WRITER, at_s)

    def _for(self, reader: Reader, since_s: float) -> str:
        lasted_s = self._sight.since(reader, since_s)
        return f" for {lasted_s:.1f} s without a fault" if lasted_s < NEVER else ""

    def _lets_in(self, name: Name, mark: Mark) -> bool:
        taint = kube.Taint(key=mark[0], value=mark[1], effect=mark[2])
        read = msgspec.convert(list(self._tolerations(name)), list[kube.Toleration])
        return any(tolerates(each, taint) for each in read)


def _devices(grants: Iterable[Grant]) -> Iterator[Grant]:
    return (grant for grant in grants if grant.kind in DEVICE_KINDS)
