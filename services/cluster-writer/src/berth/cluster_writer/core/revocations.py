"""What is to be done about a revocation: a quota group that gives back while nobody waits for it (docs/evictions.md).

Nobody's place depends on it, so each victim leaves for itself: who may not be evicted, or is somebody else's victim by
now, stays, and the others go on. Whoever stays is left to the solver, which takes the revocation back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from berth.cluster_writer.core.basis import is_late
from berth.cluster_writer.core.evictions import WAIT, EvictionStep, Stage, mark_of
from berth.contracts.ledger import Decision, PlanStatus
from berth.contracts.state import Pod
from berth.rules.eviction_notes import ANYBODY
from berth.transaction.book import FINISHED_PHASES, Book

OVER: Final = EvictionStep(Stage.OVER)


WhyStays: TypeAlias = Callable[[Pod, Collection[str]], str]
"""Why a pod is nobody's victim, if those with these uids leave with it; empty: it may leave."""


def next_step(
    decision: Decision, book: Book, why_stays: WhyStays, refusals: Mapping[str, str], *, is_read: bool
) -> EvictionStep:
    """What follows for a group. `is_read` and `refusals` are those of an `Outlook`."""
    if book.ledger.plan_status(decision.plan) is not PlanStatus.COMMITTED or book.is_settled(decision):
        return OVER
    through = book.complete["pods"].version
    if is_late(book, decision) or any(through < victim.version for victim in decision.victims):
        return WAIT
    if not is_read or ANYBODY in refusals:
        return WAIT
    leaving = _leaving(decision, book, why_stays, refusals)
    unmarked = [pod for pod in leaving if book.marks.of((pod.namespace, pod.name)) is None]
    if unmarked:
        return EvictionStep(Stage.MARK, (decision,), tuple(sorted(unmarked, key=lambda pod: pod.uid)))
    return EvictionStep(Stage.EVICT, (decision,), tuple(leaving)) if leaving else WAIT


def _leaving(decision: Decision, book: Book, why_stays: WhyStays, refusals: Mapping[str, str]) -> list[Pod]:
    """Those of its victims that are there and may leave. Where one stays, so do those of its strict gang."""
    mark = mark_of(decision)
    found: list[Pod] = []
    for victim in decision.victims:
        pod = book.pods.get((victim.namespace, victim.name))
        if pod is None or pod.uid != victim.uid or pod.deleting or pod.phase in FINISHED_PHASES:
            continue
        its = book.marks.of((pod.namespace, pod.name))
        if pod.uid not in refusals and (its is None or its == mark):
            found.append(pod)
    while True:
        uids = {pod.uid for pod in found}
        kept = [pod for pod in found if not why_stays(pod, uids)]
        if len(kept) == len(found):
            return found
        found = kept
