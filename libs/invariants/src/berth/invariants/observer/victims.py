"""Who may not be made to leave: protected pods (I11e), members that a strict gang needs (I11f), and a second set of
victims for a pod (I11g); and who must not be left of a gang that leaves (I34). docs/evictions.md has the rules: E6, E9,
E10.

A deletion names the version of the victim that was judged, so labels and notes of that version are known when it is
deleted.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Final

from berth.contracts import names
from berth.contracts.ledger import Decision
from berth.contracts.state import Pod, PodTemplate
from berth.invariants.counts import Excuse
from berth.invariants.facts import ENDED
from berth.invariants.members import said_by_json
from berth.invariants.observer.pods import version_of
from berth.invariants.observer.verdicts import Verdicts
from berth.rules.eviction_notes import Mark, noted_mark, plans_let_go
from berth.rules.gang_config import GangConfig, gang_of_pod
from berth.rules.preemption import why_protected

Json = Mapping[str, Any]
Name = tuple[str, str]
PROTECTED: Final = "I11e"
GANGS: Final = "I11f"
WHOLE: Final = "I34"
ONE_SET: Final = "I11g"
STRICT: Final = "Strict"


class VictimLaws:
    """`pods` and `reservations` are the objects as they are, by name; `group_of` gives what the PodGroup of a gang
    says, if any."""

    def __init__(
        self,
        verdicts: Verdicts,
        pods: MutableMapping[Name, Json],
        reservations: MutableMapping[Name, Json],
        group_of: Callable[[str], GangConfig | None],
    ) -> None:
        self._verdicts = verdicts
        self._pods = pods
        self._reservations = reservations
        self._waiting: Mapping[Name, Json] = ChainMap(pods, reservations)
        self._group_of = group_of
        self._leaving: dict[str, dict[str, tuple[Mark, int, str]]] = {}
        """By uid of the beneficiary and of the victim: its mark, since which version it is leaving, and its name."""
        self._displaced: dict[str, tuple[Decision, set[str]]] = {}
        """By strict gang: the nomination for which it leaves whole, and the uids of those that were there."""

    def see(self, pod: Json, deleted: bool) -> None:
        """A pod is written, or deleted: who leaves for whom."""
        meta = pod["metadata"]
        mark = noted_mark(meta.get("annotations") or {})
        if mark is None:
            return
        victims = self._leaving.setdefault(mark.uid, {})
        if deleted or (pod.get("status") or {}).get("phase") in ENDED:
            victims.pop(meta["uid"], None)
        elif meta.get("deletionTimestamp") and meta["uid"] not in victims:
            victims[meta["uid"]] = (mark, version_of(pod), f"{meta.get('namespace', '')}/{meta['name']}")
        if not victims:
            del self._leaving[mark.uid]

    def nominated(self, decision: Decision, priority: int) -> None:
        """LEDGER has a nomination: nobody else is leaving for its pod. Who stays beside it is counted."""
        chosen = {victim.uid for victim in decision.victims}
        self._judge_sets(decision, chosen)
        for pod in self._pods.values():
            spec = pod.get("spec") or {}
            if spec.get("nodeName") != decision.node or int(spec.get("priority") or 0) >= priority:
                continue
            if pod["metadata"]["uid"] in chosen:
                continue
            if _why_protected(pod):
                self._verdicts.judged(PROTECTED)
            if self._is_strict(pod):
                self._verdicts.judged(GANGS)

    def evicted(self, victim: Json, decision: Decision, subject: str) -> None:
        """A victim begins to leave by our hand."""
        meta = victim["metadata"]
        who = f"{meta.get('namespace', '')}/{meta['name']}"
        self.spared(victim, subject, f"plan {decision.plan}")
        config = self._config_of(victim)
        if config is None or config.mode != STRICT:
            return
        self._verdicts.judged(GANGS)
        left = list(self._staying(config.id, victim, {each.uid for each in decision.victims}))
        needed = config.min_member or len(left) + 1
        if not left:
            chosen = {each.uid for each in decision.victims}
            there = {each["metadata"]["uid"] for each in self._staying(config.id, victim, set())}
            self._displaced[config.id] = (decision, there & chosen)
        if 0 < len(left) < needed:
            text = f"is evicted under plan {decision.plan}, and leaves {len(left)} of its gang, which needs {needed}"
            self._verdicts.add(GANGS, subject, f"{who}: {text}")

    def spared(self, victim: Json, subject: str, under: str) -> None:
        """A pod begins to leave by our hand, under this plan or for this need: nothing protects it."""
        meta = victim["metadata"]
        self._verdicts.judged(PROTECTED)
        why = _why_protected(victim)
        if why:
            who = f"{meta.get('namespace', '')}/{meta['name']}"
            self._verdicts.add(PROTECTED, subject, f"{who}: is evicted under {under}, though {why}")

    def left_of_gangs(self, is_over: Callable[[Decision], bool]) -> Iterator[str]:
        """Once all is quiet: nobody is left of a gang that was made to leave, unless whom it left for went first."""
        there = {pod["metadata"]["uid"]: name for name, pod in self._pods.items()}
        for gang_id, (decision, uids) in self._displaced.items():
            self._verdicts.judged(WHOLE)
            left = sorted("/".join(there[uid]) for uid in uids if uid in there)
            if not left:
                continue
            if is_over(decision):
                self._verdicts.excused(WHOLE, Excuse.MEMBER_GONE)
                continue
            yield f"gang {gang_id}: leaves by plan {decision.plan}, and {', '.join(left)} has stayed"

    def _judge_sets(self, decision: Decision, chosen: set[str]) -> None:
        waiting = self._waiting.get((decision.namespace, decision.name))
        if waiting is None or waiting["metadata"]["uid"] != decision.uid or not chosen:
            return
        let_go = plans_let_go(waiting["metadata"].get("annotations") or {})
        self._verdicts.judged(ONE_SET)
        for uid, (mark, version, victim) in self._leaving.get(decision.uid, {}).items():
            if uid in chosen or mark.plan in let_go or mark.plan == decision.plan:
                continue
            if version > decision.basis:
                self._verdicts.excused(ONE_SET, Excuse.UNSEEN)
                continue
            who = f"{decision.namespace}/{decision.name}"
            text = f"gets victims by plan {decision.plan}, while {victim} leaves for it by plan {mark.plan}"
            self._verdicts.add(ONE_SET, f"{who}, plan {decision.plan}", f"{who}: {text}")

    def _staying(self, gang: str, victim: Json, chosen: set[str]) -> Iterator[Json]:
        for pod in self._pods.values():
            meta = pod["metadata"]
            if meta["uid"] == victim["metadata"]["uid"] or meta["uid"] in chosen or meta.get("deletionTimestamp"):
                continue
            has_ended = (pod.get("status") or {}).get("phase") in ENDED
            if has_ended or not (pod.get("spec") or {}).get("nodeName"):
                continue
            own = _gang_of(pod)
            if own is not None and own.id == gang:
                yield pod
        for each in self._reservations.values():
            status = each.get("status") or {}
            is_there = bool(status.get("nodeName")) and status.get("phase") not in ENDED
            if is_there and not each["metadata"].get("deletionTimestamp") and said_by_json(each).gang == gang:
                yield each

    def _is_strict(self, pod: Json) -> bool:
        config = self._config_of(pod)
        return config is not None and config.mode == STRICT

    def _config_of(self, pod: Json) -> GangConfig | None:
        own = _gang_of(pod)
        return None if own is None else self._group_of(own.id) or own


def _gang_of(pod: Json) -> GangConfig | None:
    meta = pod["metadata"]
    return gang_of_pod(meta.get("namespace") or "", meta.get("labels") or {}, meta.get("annotations") or {})


def _why_protected(pod: Json) -> str:
    meta = pod["metadata"]
    return why_protected(
        Pod(
            namespace=meta.get("namespace") or "",
            name=meta["name"],
            uid=meta["uid"],
            version=version_of(pod),
            template=PodTemplate(labels=meta.get("labels") or {}),
            mirror=names.ANNOTATION_MIRROR in (meta.get("annotations") or {}),
        )
    )
